"""What each column probably is, from its name and values. A doubt is settled by dropping it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from core.config_attributes import DOMAIN_WIDTH_MAX, QUASI_IDENTIFIERS_MAX
from core.schema import CLASS_ID, Kind, Role

VALUES_MAX: Final = 100
# A column called ..._id holds codes, not identities, when each value has this many rows or more.
_ROWS_PER_CODE: Final = 10

MISSING_WORDS: Final = ("", "?", "NA", "N/A", "NULL", "null", "NaN", "nan")

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ID_WORDS: Final = frozenset({"id", "nbr", "nr", "no", "num", "number", "key", "code", "uuid"})
_PERSON_WORDS: Final = frozenset(
    {"person", "patient", "customer", "client", "user", "member", "subject", "employee", "visitor"}
    | {"pid", "uid"}
)
# Before `name`, these make it a person's.
_NAMED_WORDS: Final = _PERSON_WORDS | {"first", "middle", "last", "full", "given", "family"}
# Words that name or reach one person, whatever the values look like.
_IDENTITY_WORDS: Final = frozenset(
    {"ssn", "email", "mail", "phone", "telephone", "mobile", "fax", "address", "street", "iban"}
    | {"passport", "surname", "firstname", "lastname", "fullname", "username", "login", "url"}
    | {"uuid", "guid", "mrn", "ip"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What the sample shows of one column."""

    name: str
    rows: int
    present: int
    distinct: int
    bounds: tuple[float, float] | None  # smallest and largest, when all values are numbers
    values: tuple[str, ...]  # empty when there are more than VALUES_MAX
    missing: tuple[str, ...]  # the cells that hold one of MISSING_WORDS, as they are written


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """The role proposed for a column, and why."""

    column: Column
    role: Role
    why: str
    kind: Kind | None = None


def describe(name: str, cells: pa.ChunkedArray) -> Column:
    """Count and bound the values of a column."""
    text = _as_text(cells)
    if text is None:
        return Column(
            name=name, rows=len(cells), present=0, distinct=0, bounds=None, values=(), missing=()
        )
    seen = pc.unique(text).drop_null()
    distinct = seen.filter(pc.invert(_is_missing(seen)))
    present = pc.sum(pc.invert(_is_missing(text.drop_null()))).as_py() or 0
    numbers = _numbers(distinct)
    order = pc.sort_indices(distinct if numbers is None else numbers)
    few = distinct.take(order).to_pylist() if len(distinct) <= VALUES_MAX else []
    return Column(
        name=name,
        rows=len(cells),
        present=present,
        distinct=len(distinct),
        bounds=None if numbers is None else _bounds(numbers),
        values=tuple(few),
        missing=tuple(seen.filter(_is_missing(seen)).to_pylist()),
    )


def find_person(columns: Sequence[Column]) -> str | None:
    """Return the first column that is named like a person's number and has some twice."""
    for column in columns:
        repeats = 1 < column.distinct < column.present
        if repeats and _names_a_person(_words(column.name)):
            return column.name
    return None


def guess_all(columns: Sequence[Column], *, sensitive: str | None) -> list[Guess]:
    """Propose a role for each column; quasi-identifiers past the limit are dropped."""
    guesses = []
    quasi_identifiers = 0
    for column in columns:
        if column.name == sensitive:
            guesses.append(_sensitive(column))
            continue
        guess = _guess(column)
        quasi_identifiers += guess.role is Role.QUASI_IDENTIFIER
        if guess.role is Role.QUASI_IDENTIFIER and quasi_identifiers > QUASI_IDENTIFIERS_MAX:
            why = f"dropped: there can be {QUASI_IDENTIFIERS_MAX} quasi-identifiers at most"
            guess = replace(guess, role=Role.IDENTIFIER, why=why)
        guesses.append(guess)
    return guesses


def _sensitive(column: Column) -> Guess:
    kind = Kind.NUMERIC if column.bounds else Kind.CATEGORICAL
    why = f"{column.distinct:,} different values seen"
    return Guess(column=column, role=Role.SENSITIVE, why=why, kind=kind)


def _guess(column: Column) -> Guess:
    reason = _reason_to_drop(column)
    if reason:
        return Guess(column=column, role=Role.IDENTIFIER, why=f"dropped: {reason}")
    role = Role.QUASI_IDENTIFIER
    if column.bounds and not _is_code(column):
        return Guess(column=column, role=role, why="numbers", kind=Kind.NUMERIC)
    why = f"{column.distinct} different values seen"
    return Guess(column=column, role=role, why=why, kind=Kind.CATEGORICAL)


def _reason_to_drop(column: Column) -> str:
    words = _words(column.name)
    if column.name == CLASS_ID:
        return "the published class has this name"
    if not column.distinct:
        return "no usable value seen"
    if _names_an_identity(words) or (words[-1:] == ["id"] and not _is_code(column)):
        return "the name says that it identifies a person or a record"
    if column.bounds:
        low, high = column.bounds
        too_large = max(-low, high, high - low) >= DOMAIN_WIDTH_MAX
        return "numbers too large for a domain" if too_large else ""
    if column.distinct == column.present:
        return "a different text in every row"
    if not column.values:
        return f"text with {column.distinct:,} different values; a hierarchy would let you keep it"
    # '*' is the root of a hierarchy made from values, so it cannot be one of them.
    return "'*' is one of its values" if "*" in column.values else ""


def _is_code(column: Column) -> bool:
    """Tell a code such as `admission_type_id` from an identity: few values, each many times."""
    often = column.present >= _ROWS_PER_CODE * column.distinct
    return _words(column.name)[-1:] == ["id"] and bool(column.values) and often


def _names_an_identity(words: list[str]) -> bool:
    if words[-1:] == ["name"]:
        return len(words) == 1 or not _NAMED_WORDS.isdisjoint(words)
    return _names_a_person(words) or not _IDENTITY_WORDS.isdisjoint(words)


def _names_a_person(words: list[str]) -> bool:
    return not _PERSON_WORDS.isdisjoint(words[:1]) and _ID_WORDS.issuperset(words[1:])


def _words(name: str) -> list[str]:
    """Split `patientNbr`, `patient_nbr` and `Patient NBR` alike."""
    return re.findall(r"[^\W_]+", _CAMEL.sub(" ", name).lower())


def _is_missing(text: pa.Array) -> pa.Array:
    return pc.is_in(pc.utf8_trim_whitespace(text), pa.array(MISSING_WORDS))


def _as_text(cells: pa.ChunkedArray) -> pa.Array | None:
    """Cast to strings; None for what has no plain text, such as lists and structs."""
    if pa.types.is_nested(cells.type):
        return None
    try:
        return pc.cast(cells, pa.string()).combine_chunks()
    except pa.ArrowException:
        return None


def _numbers(distinct: pa.Array) -> pa.Array | None:
    """Cast to numbers; None unless all of the texts are numbers."""
    trimmed = pc.utf8_trim_whitespace(distinct)
    # 02139 is a code: as a number it would lose its zero.
    if pc.any(pc.match_substring_regex(trimmed, r"^[+-]?0\d")).as_py():
        return None
    try:
        return pc.cast(trimmed, pa.float64())
    except pa.ArrowException:
        return None


def _bounds(numbers: pa.Array) -> tuple[float, float] | None:
    """Find the smallest and the largest of the finite numbers."""
    finite = numbers.filter(pc.is_finite(numbers))
    if not len(finite):
        return None
    ends = pc.min_max(finite)
    return ends["min"].as_py(), ends["max"].as_py()
