"""The auditor's own reading of a dcastle.toml: only what an audit needs of it."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Final

from core.errors import ConfigurationError, Fault
from core.verify_rules import (
    Categorical,
    Numeric,
    QuasiIdentifier,
    Rules,
    grow_tree,
    path_of,
    tree_faults,
)

ROLES: Final = ("quasi-identifier", "sensitive", "insensitive", "identifier")
FLAT_ROOT: Final = "*"

Table = Mapping[str, object]
Paths = list[tuple[str, ...]]


def read_rules(file: Path) -> tuple[Rules, str | None]:
    """Read the rules, and the input's delimiter if the file sets it; raises with every fault."""
    return _Reader(file).read()


class _Reader:
    """Reads one dcastle.toml and collects what is wrong with it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.faults: list[Fault] = []

    def read(self) -> tuple[Rules, str | None]:
        document = self._load()
        attributes = self._attributes(document)
        roles: dict[str, list[Table]] = {role: [] for role in ROLES}
        for attribute in attributes:
            roles[str(attribute["role"])].append(attribute)
        read = [self._quasi_identifier(table) for table in roles["quasi-identifier"]]
        privacy, options = self._table(document, "privacy"), self._table(document, "input")
        k, l = self._count(privacy, "k", None), self._count(privacy, "l", 1)
        sensitive = self._sensitive(roles["sensitive"], l)
        person = self._text(self._table(document, "person"), "column")
        delimiter = self._text(options, "delimiter")
        missing = options.get("missing", [""])
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            self._fault(f"[input] delimiter must be a single character, not {delimiter!r}")
        if not isinstance(missing, list):
            self._fault("[input] missing must be an array of strings")
        if not read:
            self._fault("no attribute is a quasi-identifier, so there is nothing to audit")
        if self.faults:
            raise ConfigurationError(self.faults)
        rules = Rules(
            k=k,
            l=l,
            quasi_identifiers=tuple(each for each in read if each is not None),
            sensitive=None if sensitive is None else str(sensitive["name"]),
            sensitive_is_numeric=sensitive is not None and sensitive.get("kind") == "numeric",
            insensitive=tuple(str(each["name"]) for each in roles["insensitive"]),
            identifiers=tuple(str(each["name"]) for each in roles["identifier"]),
            person=person,
            missing=_labels(missing),
        )
        return rules, delimiter

    def _load(self) -> Table:
        try:
            return tomllib.loads(self.file.read_text(encoding="utf-8-sig"))
        except (ValueError, RecursionError) as error:
            fault = Fault(message=f"not valid TOML: {error}", file=str(self.file))
            raise ConfigurationError([fault]) from error

    def _fault(self, message: str, attribute: str = "") -> None:
        self.faults.append(Fault(message=message, file=str(self.file), attribute=attribute))

    def _table(self, document: Table, name: str) -> Table:
        table = document.get(name, {})
        if isinstance(table, Mapping):
            return table
        self._fault(f"[{name}] is not a table")
        return {}

    def _text(self, table: Table, name: str) -> str | None:
        value = table.get(name)
        if value is None or isinstance(value, str):
            return value
        self._fault(f"{name} must be a string, not {value!r}")
        return None

    def _count(self, privacy: Table, name: str, default: int | None) -> int:
        value = privacy.get(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
        self._fault(f"[privacy] {name} must be a whole number of at least 1, not {value!r}")
        return 1

    def _attributes(self, document: Table) -> list[Table]:
        tables = document.get("attribute", [])
        if not isinstance(tables, list):
            self._fault("[[attribute]] is not an array of tables")
            return []
        sound: list[Table] = []
        for place, table in enumerate(tables, start=1):
            if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
                self._fault(f"attribute {place} has no name")
            elif table.get("role") not in ROLES:
                self._fault(f"role must be one of {', '.join(ROLES)}", table["name"])
            else:
                sound.append(table)
        return sound

    def _sensitive(self, tables: list[Table], l: int) -> Table | None:
        if len(tables) > 1:
            self._fault("more than one attribute is sensitive; diversity is counted over one")
        if l > 1 and not tables:
            self._fault(f"[privacy] l is {l}, but no attribute is sensitive")
        return next(iter(tables), None)

    def _quasi_identifier(self, table: Table) -> QuasiIdentifier | None:
        name, kind = str(table["name"]), table.get("kind")
        if kind == "categorical":
            return self._categorical(name, table)
        if kind == "numeric":
            return self._numeric(name, table)
        self._fault("kind must be numeric or categorical", name)
        return None

    def _numeric(self, name: str, table: Table) -> Numeric | None:
        match table.get("domain"):
            case [int() | float() as low, int() | float() as high] if low <= high:
                if isfinite(low) and isfinite(high):
                    clamp = table.get("policy") == "clamp"
                    return Numeric(name=name, domain=(float(low), float(high)), clamp=clamp)
        self._fault("domain must be two finite numbers, the lower one first", name)
        return None

    def _categorical(self, name: str, table: Table) -> Categorical | None:
        paths = self._paths(name, table)
        if paths is None:
            return None
        faults = tree_faults(paths)
        for fault in faults:
            self._fault(fault, name)
        return None if faults else Categorical(name=name, tree=grow_tree(paths))

    def _paths(self, name: str, table: Table) -> Paths | None:
        """Every way from a leaf to the root; None after a fault."""
        hierarchy = table.get("hierarchy")
        if isinstance(hierarchy, str):
            return self._arx_paths(name, self.file.parent / hierarchy)
        if isinstance(hierarchy, Mapping):
            return [path_of(path) for path in self._nested_paths(name, hierarchy, ())]
        if isinstance(table.get("values"), list):
            return [path_of((label, FLAT_ROOT)) for label in _labels(table["values"])]
        self._fault("a categorical quasi-identifier needs a hierarchy or values", name)
        return None

    def _nested_paths(
        self, name: str, node: object, above: tuple[str, ...]
    ) -> Iterator[tuple[str, ...]]:
        """Walk a nested table: a table is an inner node, a list holds leaves, empty is a leaf."""
        if above and node in ({}, []):
            yield above
        elif isinstance(node, Mapping):
            for label, below in node.items():
                yield from self._nested_paths(name, below, (label, *above))
        elif isinstance(node, list):
            yield from ((label, *above) for label in _labels(node))
        else:
            self._fault(f"what is under '{above[0]}' is neither a table nor a list", name)

    def _arx_paths(self, name: str, file: Path) -> Paths | None:
        try:
            lines = file.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, ValueError) as error:
            self._fault(f"cannot read hierarchy '{file}': {error}", name)
            return None
        # ARX writes ';', and labels hold commas more often than semicolons.
        semicolons, commas = (sum(mark in line for line in lines) for mark in ";,")
        rows = csv.reader(lines, delimiter=";" if semicolons >= commas else ",")
        return [path_of(row) for row in rows if any(label.strip() for label in row)]


def _labels(values: object) -> tuple[str, ...]:
    return tuple(str(value) for value in values) if isinstance(values, list) else ()
