"""dcastle.toml, read and checked once, at the edge. Behind it every value is right.

`parse_project` reads the whole file before it complains, so that one run shows every fault.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from core.config_attributes import ATTRIBUTE_KEYS, read_attributes
from core.errors import ConfigurationError, Fault
from core.schema import Attribute, Role, Schema
from core.toml_lines import KeyPath, key_lines
from core.toml_table import Document, Table, finite

K_MAX: Final = 1_000_000
DELAY_TUPLES_MAX: Final = 50_000_000
BETA_MAX: Final = 4_096
MU_MAX: Final = 1_000_000
REUSE_MAX_MAX: Final = 1_048_576

Diversity = Literal["distinct"]
Split = Literal["cut", "castle"]
Order = Literal["released", "input"]
Protocol = Literal["strict", "paper", "none"]

DIVERSITIES: Final[tuple[Diversity, ...]] = ("distinct",)
SPLITS: Final[tuple[Split, ...]] = ("cut", "castle")
ORDERS: Final[tuple[Order, ...]] = ("released", "input")
PROTOCOLS: Final[tuple[Protocol, ...]] = ("strict", "paper", "none")

_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "privacy": ("k", "l", "delay_tuples", "delay_seconds", "diversity"),
    "clustering": ("beta", "mu", "reuse_max", "split"),
    "output": ("order",),
    "exchange": ("protocol", "relay"),
    "person": ("column", "disjoint"),
    "input": ("delimiter", "missing"),
}
# Where a key belongs, for one that is found elsewhere.
_HOMES: Final[Mapping[str, str]] = {
    **{key: f"[{table}]" for table, keys in _KEYS.items() for key in keys},
    **dict.fromkeys(ATTRIBUTE_KEYS, "[[attribute]]"),
}
# Flags are named after their key, but for these.
_FLAGS: Final = {"person.column": "--person", "exchange.protocol": "--exchange"}

_SYNTAX_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The knobs of CASTLE, by the paper's names where it has them.

    k               a published class holds at least this many distinct persons
    l               and at least this many values of the sensitive attribute
    delay_tuples    delta: a record's outcome is decided before more later records are accepted
    delay_seconds   and before this much time has passed; None for no such limit
    diversity       how l is counted
    beta            open clusters aimed at; more means less loss and more work
    mu              how many released clusters tau, the loss to expect, is averaged over
    reuse_max       released classes kept for reuse (Omega)
    split           "cut" is bounded in time, "castle" is the paper's
    order           the output is in order of release, or of input (CASTLE, Theorem 3)
    """

    k: int
    l: int = 1
    delay_tuples: int
    delay_seconds: float | None = None
    diversity: Diversity = "distinct"
    beta: int = 50
    mu: int = 100
    reuse_max: int = 4096
    split: Split = "cut"
    order: Order = "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """How to read the input; `delimiter` None means: find out. `missing` are the empty values."""

    delimiter: str | None = None
    missing: tuple[str, ...] = ("",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Everything a dcastle.toml says; `protocol` is how sites exchange."""

    schema: Schema
    parameters: Parameters
    input: InputOptions
    protocol: Protocol = PROTOCOLS[0]


def parse_project(
    text: str,
    *,
    file: str,
    read_file: Callable[[str], str],
    overrides: Mapping[str, object] | None = None,
) -> Project:
    """Read a dcastle.toml; raises ConfigurationError with every fault in it.

    `file` is the name to use in messages. `read_file` gets the path of a hierarchy as it is
    written in the file and may raise OSError or UnicodeDecodeError. `overrides` such as
    `{"privacy.k": 20}` replace what the file says, and messages then speak of `--k`; an override
    that is None is not there.
    """
    text = text.removeprefix("\ufeff")
    values, lines = _load(text, file)
    flags = _override(values, overrides or {})
    document = Document(file=file, lines=lines, flags=flags)
    top = Table(document=document, path=(), values=values)
    tables = {name: top.table(name) for name in _KEYS}

    _check_tables(top, tables)
    attributes = read_attributes(top, _HOMES, read_file)
    person = _read_person(tables["person"], attributes)
    disjoint = _read_disjoint(tables["person"])
    parameters = _read_parameters(tables)
    _check_diversity(tables["privacy"], attributes)
    options = _read_input(tables["input"])
    protocol = tables["exchange"].choice("protocol", PROTOCOLS[0], PROTOCOLS)
    if document.faults or parameters is None:
        raise ConfigurationError(sorted(document.faults, key=partial(_reading_order, file)))
    schema = Schema(
        attributes=tuple(each for each in attributes if each),
        person=person,
        persons_disjoint=disjoint,
    )
    return Project(schema=schema, parameters=parameters, input=options, protocol=protocol)


def _reading_order(file: str, fault: Fault) -> tuple[bool, str, int]:
    """Sort flags first, then the configuration file, then the hierarchies it names."""
    return fault.file not in ("", file), fault.file, fault.line or 0


def _load(text: str, file: str) -> tuple[dict[str, object], dict[KeyPath, int]]:
    """Parse the TOML; returns its values and the lines they are on."""
    try:
        return tomllib.loads(text), key_lines(text)
    except RecursionError as error:
        fault = Fault(message="not valid TOML: nested too deeply", file=file)
        raise ConfigurationError([fault]) from error
    except ValueError as error:
        where = _SYNTAX_PLACE.search(str(error))
        # Without a line the error is at the end of the document.
        line = int(where[1]) if where and where[1] else text.count("\n") + 1
        message = f"not valid TOML: {_SYNTAX_PLACE.sub('', str(error))}"
        raise ConfigurationError([Fault(message=message, file=file, line=line)]) from error


def _override(values: dict[str, object], overrides: Mapping[str, object]) -> dict[KeyPath, str]:
    """Put the overrides into `values`; returns the flag that stands behind each path."""
    flags: dict[KeyPath, str] = {}
    for name, value in overrides.items():
        table_name, _, key = name.partition(".")
        table = values.setdefault(table_name, {})
        # A table that is none is a fault of the file, found later.
        if value is not None and isinstance(table, dict):
            table[key] = value
            flags[table_name, key] = _FLAGS.get(name, "--" + key.replace("_", "-"))
    return flags


def _check_tables(top: Table, tables: Mapping[str, Table]) -> None:
    """Check for unknown names, and the tables of which only the outline is looked at."""
    top.refuse_unknown([*_KEYS, "guard", "attribute"], _HOMES)
    for name, table in tables.items():
        table.refuse_unknown(_KEYS[name], _HOMES)
    tables["exchange"].text("relay")
    if "guard" in top.values:
        top.fault("[guard] is not available in this version", key="guard", hint="remove it")


def _read_parameters(tables: Mapping[str, Table]) -> Parameters | None:
    privacy, clustering = tables["privacy"], tables["clustering"]
    privacy.require("k", "delay_tuples")
    k = privacy.integer("k", None, least=2, most=K_MAX)
    l = privacy.integer("l", 1, least=1, most=K_MAX)
    delay_tuples = privacy.integer("delay_tuples", None, least=1, most=DELAY_TUPLES_MAX)
    delay_seconds = _read_delay_seconds(privacy)
    diversity = privacy.choice("diversity", DIVERSITIES[0], DIVERSITIES)
    beta = clustering.integer("beta", 50, least=1, most=BETA_MAX)
    mu = clustering.integer("mu", 100, least=1, most=MU_MAX)
    reuse_max = clustering.integer("reuse_max", 4096, least=0, most=REUSE_MAX_MAX)
    split = clustering.choice("split", SPLITS[0], SPLITS)
    order = tables["output"].choice("order", ORDERS[0], ORDERS)
    if k is not None:
        _check_against_k(privacy, k, l, delay_tuples)
    if k is None or delay_tuples is None:
        return None
    return Parameters(
        k=k,
        l=l,
        delay_tuples=delay_tuples,
        delay_seconds=delay_seconds,
        diversity=diversity,
        beta=beta,
        mu=mu,
        reuse_max=reuse_max,
        split=split,
        order=order,
    )


def _check_against_k(privacy: Table, k: int, l: int, delay_tuples: int | None) -> None:
    limit = f"{privacy.label('k')} is {k}"
    if l > k:
        hint = "k persons cannot have more than k values"
        privacy.fault(f"{privacy.label('l')} is {l}, but {limit}", key="l", value=l, hint=hint)
    if delay_tuples is not None and 1 <= delay_tuples < k:
        message = f"{privacy.label('delay_tuples')} is {delay_tuples}, but {limit}"
        hint = "a class of k persons needs at least k records waiting"
        privacy.fault(message, key="delay_tuples", value=delay_tuples, hint=hint)


def _read_delay_seconds(privacy: Table) -> float | None:
    value = privacy.values.get("delay_seconds")
    if value is None:
        return None
    seconds = finite(value)
    if seconds is None:
        privacy.wrong_type("delay_seconds", "a finite number")
    elif seconds <= 0:
        message = f"{privacy.label('delay_seconds')} is {value}, must be more than 0"
        privacy.fault(message, key="delay_seconds", value=value)
    return seconds


def _check_diversity(privacy: Table, attributes: Sequence[Attribute | None]) -> None:
    """Check that there is a sensitive attribute for l, and that it can have l values."""
    l = privacy.values.get("l")
    if not isinstance(l, int) or isinstance(l, bool) or l < 2:
        return
    sensitive = [each for each in attributes if each and each.role is Role.SENSITIVE]
    if not sensitive and None not in attributes:
        message = f"{privacy.label('l')} is {l}, but no attribute is sensitive"
        hint = 'give one attribute role = "sensitive", or set l = 1'
        privacy.fault(message, key="l", value=l, hint=hint)
    for each in sensitive:
        if each.hierarchy is not None and each.hierarchy.leaf_count < l:
            count = each.hierarchy.leaf_count
            message = f"{privacy.label('l')} is {l}, but '{each.name}' has {count} values"
            hint = "no class could ever be published"
            privacy.fault(message, key="l", value=l, hint=hint)


def _read_person(table: Table, attributes: Sequence[Attribute | None]) -> str | None:
    if table.values:
        table.require("column")
    person = table.text("column")
    for each in attributes:
        if each and each.name == person and each.role is not Role.IDENTIFIER:
            message = f"{table.label('column')} '{person}' is also declared as {each.role}"
            hint = 'the person is never published: use role = "identifier", or leave it out'
            table.fault(message, key="column", value=person, hint=hint)
    return person


def _read_disjoint(table: Table) -> bool:
    """Whether no person is at two sites, so that persons need not be compared across sites."""
    disjoint = table.values.get("disjoint", False)
    if not isinstance(disjoint, bool):
        table.wrong_type("disjoint", "true or false")
        return False
    return disjoint


def _read_input(table: Table) -> InputOptions:
    delimiter = table.text("delimiter")
    # pyarrow takes one byte; a quote or a line end as delimiter would mean two things at once.
    if delimiter and (len(delimiter) > 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        message = f"{table.label('delimiter')} must be a single ASCII character, not {delimiter!r}"
        hint = "not a quote or a line end"
        table.fault(message, key="delimiter", value=delimiter, hint=hint)
    missing = table.values.get("missing", [""])
    if not isinstance(missing, list) or not all(isinstance(each, str) for each in missing):
        table.wrong_type("missing", "an array of strings", hint='such as missing = ["", "?"]')
        missing = []
    return InputOptions(delimiter=delimiter, missing=tuple(missing))
