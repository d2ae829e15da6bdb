"""What the auditor holds a publication to: its own reading of the schema.

Nothing here is shared with the anonymiser, so that one misreading cannot pass both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

CLASS_ID: Final = "class_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A hierarchy: the run [first, stop) of leaves under each label, each leaf's place in it."""

    root: str
    spans: dict[str, tuple[int, int]]
    places: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric:
    """A quasi-identifier shown as an interval inside `domain`, into which `clamp` moves values."""

    name: str
    domain: tuple[float, float]
    clamp: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Categorical:
    """A quasi-identifier shown as a node of `tree`."""

    name: str
    tree: Tree


QuasiIdentifier = Numeric | Categorical


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The promises a publication is audited against, and what its columns mean."""

    k: int
    l: int
    quasi_identifiers: tuple[QuasiIdentifier, ...]
    sensitive: str | None = None
    sensitive_is_numeric: bool = False
    insensitive: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    person: str | None = None
    missing: tuple[str, ...] = ("",)

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns whose values are published as they are."""
        return (*((self.sensitive,) if self.sensitive is not None else ()), *self.insensitive)

    @property
    def original_columns(self) -> tuple[str, ...]:
        """What must be read of the raw data: nothing that the audit does not compare."""
        names = [quasi_identifier.name for quasi_identifier in self.quasi_identifiers]
        person = () if self.person is None else (self.person,)
        return tuple(dict.fromkeys((*names, *self.carried, *person)))


def path_of(labels: Iterable[str]) -> tuple[str, ...]:
    """Strip the labels of a path; a label that repeats on the spot is one node."""
    path: list[str] = []
    for label in (label.strip() for label in labels):
        if not path or path[-1] != label:
            path.append(label)
    return tuple(path)


def tree_faults(paths: Sequence[Sequence[str]]) -> list[str]:
    """Say why these paths (leaf first, root last) are not one tree; nothing when they are."""
    faults = [] if paths else ["the hierarchy is empty"]
    parents: dict[str, str] = {}
    for path in paths:
        if not all(path):
            faults.append(f"the path {';'.join(path)!r} has an empty label")
        for child, parent in pairwise((*path, "")):
            known = parents.setdefault(child, parent)
            if known != parent:
                faults.append(f"'{child}' stands {_under(known)} and {_under(parent)}")
    roots = list(dict.fromkeys(path[-1] for path in paths))
    if len(roots) > 1:
        faults.append(f"{len(roots)} roots, among them '{roots[0]}' and '{roots[1]}'")
    return faults


def grow_tree(paths: Iterable[Sequence[str]]) -> Tree:
    """Build the tree of sound paths (leaf first, root last)."""
    # Sorted from the root down, the leaves under any node are neighbours.
    ordered = sorted({tuple(reversed(path)) for path in paths})
    spans: dict[str, tuple[int, int]] = {}
    for place, path in enumerate(ordered):
        for label in path:
            first, _ = spans.get(label, (place, place))
            spans[label] = (first, place + 1)
    places = {path[-1]: place for place, path in enumerate(ordered)}
    return Tree(root=ordered[0][0], spans=spans, places=places)


def _under(parent: str) -> str:
    return f"under '{parent}'" if parent else "at the root"
