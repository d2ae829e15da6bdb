"""Generalisation hierarchies: trees whose leaves are the values a categorical attribute can have.

A node's code is its place in `names`. Leaves come first, in depth-first order, so the leaves under
any node are a run of neighbouring codes and "does this node cover that value" is two comparisons.
Inner nodes follow in post-order, so a parent's code is always larger than its children's and the
root is the last code.

Builders do not raise: they return the tree, or None with every fault of the description.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.errors import Fault

FLAT_ROOT: Final = "*"

# A file that is no hierarchy has a "root" on every line; past this many we count instead of naming.
_ROOTS_NAMED_MAX: Final = 20

# A quoted field. A quote inside a bare field (5" pipe) is a character like any other.
_QUOTED = re.compile(r'(?:^|(?<=[;,])) *"(?:[^"]|"")*"', re.MULTILINE)


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """A tree over the values of one attribute, as read-only arrays indexed by node code."""

    names: tuple[str, ...]
    parents: NDArray[np.int32]
    first_leaf: NDArray[np.int32]
    last_leaf: NDArray[np.int32]

    @property
    def leaf_count(self) -> int:
        """How many leaves there are; codes below this number are leaves."""
        return int(self.last_leaf[-1]) + 1

    @property
    def root(self) -> int:
        """Code of the most general node."""
        return len(self.names) - 1

    @property
    def leaves(self) -> tuple[str, ...]:
        """The values themselves, in code order."""
        return self.names[: self.leaf_count]

    def loss(self) -> NDArray[np.float64]:
        """VInfoLoss of each node: (leaves under it - 1) / (leaves - 1), and 0 for a single leaf."""
        below = (self.last_leaf - self.first_leaf).astype(np.float64)
        return below / max(self.leaf_count - 1, 1)


Outcome = tuple[Hierarchy | None, list[Fault]]


@dataclass(frozen=True, slots=True)
class _Path:
    """One way from a leaf (first) to the root (last); `line` is None where lines say nothing."""

    labels: tuple[str, ...]
    line: int | None

    @property
    def leaf(self) -> str:
        return self.labels[0]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a hierarchy is described; makes faults that say so."""

    file: str
    line: int | None
    attribute: str

    def fault(self, message: str, *, line: int | None, value: str = "", hint: str = "") -> Fault:
        return Fault(
            message=message,
            file=self.file,
            line=line if line is not None else self.line,
            attribute=self.attribute,
            value=value,
            hint=hint,
        )


def from_arx(text: str, *, file: str, attribute: str) -> Outcome:
    """Read ARX's CSV: one path per line, leaf first, root last, ';' or ',' between, no header.

    Paths may differ in depth. A label that repeats on its own path is one node, because ARX files
    of uniform depth repeat labels to fill up.
    """
    place = _Place(file, None, attribute)
    paths: list[_Path] = []
    faults: list[Fault] = []
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    try:
        for line, row in _rows(text):
            if "" in row:
                message = f"label {row.index('') + 1} of the path {';'.join(row)!r} is empty"
                faults.append(place.fault(message, line=line))
            else:
                paths.append(_Path(_collapse(row), line))
    except _UnreadableRowError as error:
        faults.append(place.fault(f"cannot be read as CSV: {error}", line=error.line))
    if not paths and not faults:
        faults.append(place.fault("the hierarchy is empty", line=None))
    return _grow(paths, place, faults)


def from_nested(
    table: Mapping[str, object], *, file: str, line: int | None, attribute: str
) -> Outcome:
    """Read a nested table: `{ Any = { Paid = ["Private", "State"], Unpaid = [] } }`.

    A table is an inner node, a list holds leaves, an empty list or table makes its key a leaf.
    """
    place = _Place(file, line, attribute)
    if not table:
        return None, [place.fault("the hierarchy is empty", line=line)]
    paths: list[_Path] = []
    faults: list[Fault] = []
    # A stack instead of recursion: the depth is the user's to choose.
    pending: list[tuple[object, tuple[str, ...]]] = [(table, ())]
    while pending:
        node, above = pending.pop()
        if above and node in ({}, []):
            paths.append(_Path(_collapse(above), None))
        elif isinstance(node, Mapping):
            pending.extend((node[label], (label, *above)) for label in reversed(list(node)))
        elif isinstance(node, list):
            paths.extend(_Path(_collapse((str(leaf), *above)), None) for leaf in node)
            strays = [leaf for leaf in node if not is_label(leaf)]
            faults.extend(_stray(leaf, above[0], place) for leaf in strays)
        else:
            faults.append(_stray(node, above[0], place))
    whole = [path for path in paths if "" not in path.labels]
    if len(whole) < len(paths):
        faults.append(place.fault("a label of the hierarchy is empty", line=line))
    return _grow(whole, place, faults)


def flat(values: Iterable[str]) -> Hierarchy:
    """Build the tree without inner nodes: `values`, of which none is '*', under the root '*'."""
    return _number(FLAT_ROOT, dict.fromkeys(values, FLAT_ROOT))


def is_label(value: object) -> bool:
    """Whether a TOML value can name a node: a string, or a number that stands for its text."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


class _UnreadableRowError(Exception):
    """The csv module gave up at `line`."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, stripped, each with the line it starts on."""
    # Strict: a quote left open would otherwise swallow the rest of the file into one label.
    reader = csv.reader(
        (line + "\n" for line in text.split("\n")),
        delimiter=_delimiter(text),
        skipinitialspace=True,
        strict=True,
    )
    while True:
        start = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _UnreadableRowError(str(error), start) from error
        labels = [label.strip() for label in row]
        if labels not in ([], [""]):
            yield start, labels


def _delimiter(text: str) -> str:
    """Pick what is on more lines; ';' on a tie, as it is ARX's own and labels hold commas."""
    lines = _QUOTED.sub("", text).split("\n")
    semicolons = sum(";" in line for line in lines)
    commas = sum("," in line for line in lines)
    return ";" if semicolons >= commas else ","


def _collapse(labels: Iterable[str]) -> tuple[str, ...]:
    path: list[str] = []
    for label in labels:
        if not path or path[-1] != label:
            path.append(label)
    return tuple(path)


def _grow(paths: list[_Path], place: _Place, faults: list[Fault]) -> Outcome:
    """Join the paths into one tree, or add to `faults` everything that keeps them apart."""
    faults = list(faults)
    sound = _sound_paths(paths, place, faults)
    parents = _parents(sound, place, faults)
    roots: dict[str, int | None] = {}
    for path in sound:
        roots.setdefault(path.labels[-1], path.line)
    if len(roots) > 1:
        faults.append(_several_roots(roots, place))
    faults.extend(_leaves_with_children(sound, place))
    faults.extend(_cycles(parents, place))
    if faults:
        return None, faults
    return _number(next(iter(roots)), {child: parent for child, (parent, _) in parents.items()}), []


def _sound_paths(paths: list[_Path], place: _Place, faults: list[Fault]) -> list[_Path]:
    """Keep the first path of each leaf, but none that runs in a circle."""
    by_leaf: dict[str, _Path] = {}
    for path in paths:
        if len(set(path.labels)) < len(path.labels):
            message = f"the path {' > '.join(path.labels)} is a cycle"
            faults.append(place.fault(message, line=path.line, value=path.leaf))
            continue
        known = by_leaf.setdefault(path.leaf, path)
        if known.labels != path.labels:
            message = (
                f"leaf '{path.leaf}' is listed twice with different paths, "
                f"{' > '.join(known.labels)}{_at(known.line)} and "
                f"{' > '.join(path.labels)}{_at(path.line)}"
            )
            faults.append(place.fault(message, line=path.line, value=path.leaf))
    return list(by_leaf.values())


def _parents(
    paths: list[_Path], place: _Place, faults: list[Fault]
) -> dict[str, tuple[str, int | None]]:
    """Map each node to its parent and the line that says so, in order of first appearance."""
    parents: dict[str, tuple[str, int | None]] = {}
    reported: set[tuple[str, str]] = set()
    for path in paths:
        for child, parent in pairwise(path.labels):
            known, line = parents.setdefault(child, (parent, path.line))
            if known == parent or (child, parent) in reported:
                continue
            reported.add((child, parent))
            message = (
                f"'{child}' has two parents, '{known}'{_at(line)} and '{parent}'{_at(path.line)}"
            )
            faults.append(place.fault(message, line=path.line, value=child))
    return parents


def _stray(value: object, parent: str, place: _Place) -> Fault:
    hint = "a hierarchy is made of tables and of lists of strings"
    message = f"{value!r} under '{parent}' is no value"
    return place.fault(message, line=None, value=str(value), hint=hint)


def _several_roots(roots: Mapping[str, int | None], place: _Place) -> Fault:
    named = [f"'{root}'{_at(line)}" for root, line in roots.items()][:_ROOTS_NAMED_MAX]
    if len(roots) > len(named):
        named.append(f"{len(roots) - len(named):,} more")
    count = "two" if len(roots) == 2 else f"{len(roots):,}"
    return place.fault(
        f"{count} roots: {', '.join(named[:-1])} and {named[-1]}",
        line=list(roots.values())[1],
        value=list(roots)[1],
        hint="every path must end in the same most general value",
    )


def _leaves_with_children(paths: list[_Path], place: _Place) -> Iterator[Fault]:
    inner: dict[str, int | None] = {}
    for path in paths:
        for label in path.labels[1:]:
            inner.setdefault(label, path.line)
    for path in paths:
        if path.leaf in inner:
            yield place.fault(
                f"'{path.leaf}' is a leaf{_at(path.line)} and an inner node{_at(inner[path.leaf])}",
                line=path.line,
                value=path.leaf,
                hint="a value cannot have other values under it",
            )


def _cycles(parents: Mapping[str, tuple[str, int | None]], place: _Place) -> Iterator[Fault]:
    """Find circles that close only across several lines."""
    done: set[str] = set()
    for start in parents:
        trail: dict[str, None] = {}
        node = start
        while node in parents and node not in done and node not in trail:
            trail[node] = None
            node = parents[node][0]
        if node in trail:
            names = list(trail)
            circle = [*names[names.index(node) :], node]
            steps = [f"{name}{_at(parents[name][1])}" for name in circle[:-1]]
            message = f"cycle: {' > '.join([*steps, node])}"
            yield place.fault(message, line=parents[node][1], value=node)
        done.update(trail)


def _number(root: str, parents: Mapping[str, str]) -> Hierarchy:
    """Give the nodes of a sound tree their codes."""
    children: dict[str, list[str]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    leaves: list[str] = []
    inner: list[str] = []
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    pending = [root]
    while pending:
        node = pending.pop()
        if node in first:
            # Second visit of an inner node: everything under it is numbered.
            inner.append(node)
            last[node] = len(leaves) - 1
            continue
        first[node] = len(leaves)
        if node in children:
            pending.append(node)
            pending.extend(reversed(children[node]))
        else:
            last[node] = len(leaves)
            leaves.append(node)
    names = (*leaves, *inner)
    code = {name: position for position, name in enumerate(names)}
    return Hierarchy(
        names,
        _frozen(code[parents[name]] if name in parents else -1 for name in names),
        _frozen(first[name] for name in names),
        _frozen(last[name] for name in names),
    )


def _frozen(numbers: Iterable[int]) -> NDArray[np.int32]:
    array = np.fromiter(numbers, dtype=np.int32)
    array.setflags(write=False)
    return array


def _at(line: int | None) -> str:
    return "" if line is None else f" (line {line})"
