"""Boxes of the `paper` exchange, in a form in which whole sets of clusters are compared at once.

A box (the paper's cluster generalisation, section 3.2) is two vectors:

* `edge`: the lower ends of the intervals, then the upper ends with their sign turned, so that every
  end moves *down* when the box grows: joining two boxes is a minimum, what an interval grows by is
  a difference, and the loss of all intervals is minus their sum. Ends are grid coordinates, whole
  numbers in float64: sums of them are exact, whatever the order.
* `path`: for each categorical attribute the nodes from the root down to its node, -1 below it. Two
  paths are equal down to the lowest common ancestor, so the ancestor's loss is the sum of the steps
  they have in common, a matrix product.

Beside them a box has `raw`: the same ends as `edge`, in the attributes' own units. That is what is
published. Ends that come from the site's own tuples are the tuples' values; ends that came over the
wire are on the wire's grid, which is rounded outward.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.boxes import Box
from core.events import Records
from core.hierarchy import Hierarchy
from core.kernels.layout import GRID
from core.schema import Schema

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


class Extent(NamedTuple):
    """One box, or one tuple (a box without width); see above."""

    edge: Floats  # [2N]
    path: Ints  # [P]
    raw: Floats  # [2N]


class Extents(NamedTuple):
    """Many of them, a row each."""

    edge: Floats  # [n, 2N]
    path: Ints  # [n, P]
    raw: Floats  # [n, 2N]

    def one(self, row: int) -> Extent:
        """The box in this row; a view."""
        return Extent(self.edge[row], self.path[row], self.raw[row])

    def some(self, rows: NDArray[np.int64] | list[int]) -> Extents:
        """The boxes in these rows."""
        return Extents(self.edge[rows], self.path[rows], self.raw[rows])


class BoxSpace:
    """The boxes of one schema. Losses are sums over the attributes, in 1/GRID."""

    def __init__(self, schema: Schema) -> None:
        self.numeric = len(schema.numeric)
        self.categorical = len(schema.categorical)
        domains = [a.domain for a in schema.numeric if a.domain is not None]
        self._bottom = np.array([low for low, _ in domains], np.float64)
        self._top = np.array([high for _, high in domains], np.float64)
        self._trees = [a.hierarchy for a in schema.categorical if a.hierarchy is not None]
        # Nodes of all hierarchies are numbered through: each number is in one place of a path only.
        self._start = np.cumsum([0, *(len(tree.names) for tree in self._trees)]).tolist()
        self._paths = [
            _paths(tree, start) for tree, start in zip(self._trees, self._start, strict=False)
        ]
        self._columns = np.cumsum([0, *(paths.shape[1] for paths in self._paths)]).tolist()
        # What a step of a path adds to the loss; the last one is for -1, the end of a path.
        self._step = np.array([s for tree in self._trees for s in _steps(tree)] + [0], np.float64)
        self._ones = np.ones(2 * self.numeric)

    @property
    def edges(self) -> int:
        """Length of `edge` and `raw`."""
        return 2 * self.numeric

    @property
    def places(self) -> int:
        """Length of `path`."""
        return int(self._columns[-1])

    # --- boxes of tuples

    def of_records(self, records: Records) -> Extents:
        """Every record as a box."""
        code = records.code[:, : self.numeric].astype(np.float64)
        leaf = records.code[:, self.numeric :]
        paths = [paths[leaf[:, place]] for place, paths in enumerate(self._paths)]
        return Extents(
            np.concatenate([code, -code], axis=1),
            np.concatenate(paths, axis=1) if paths else np.zeros((len(code), 0), np.int32),
            np.concatenate([records.raw, -records.raw], axis=1),
        )

    def hull(self, many: Extents) -> Extent:
        """The smallest box around one or more."""
        first = many.path[0]
        path = np.where((many.path == first).all(axis=0), first, np.int32(-1))
        return Extent(many.edge.min(axis=0), path, many.raw.min(axis=0))

    def joined(self, box: Extent, other: Extent) -> Extent:
        """The smallest box around both."""
        return Extent(
            np.minimum(box.edge, other.edge),
            np.where(box.path == other.path, box.path, np.int32(-1)),
            np.minimum(box.raw, other.raw),
        )

    # --- loss (sections 3.2 and 3.3)

    def node_loss(self, path: Ints) -> float:
        """What the categorical attributes of a box lose."""
        return float(self._step[path].sum())

    def loss(self, box: Extent) -> float:
        """Infoloss (equation 3)."""
        return float(self._step[box.path].sum() - box.edge.sum())

    def enlargements_of(self, many: Extents, node_loss: Floats, by: Extent) -> Floats:
        """How much each of the boxes loses more when it takes in `by`."""
        wider = np.maximum(many.edge - by.edge, 0.0) @ self._ones
        wider += (many.path == by.path) @ self._step[by.path]
        wider -= node_loss
        return wider

    def enlargements_by(self, box: Extent, many: Extents) -> Floats:
        """How much the box loses more when it takes in each of them; of a tuple: the distance."""
        steps = self._step[box.path]
        wider = np.maximum(box.edge - many.edge, 0.0) @ self._ones
        wider += (many.path == box.path) @ steps
        wider -= steps.sum()
        return wider

    # --- to and from codes

    def nodes(self, path: Ints) -> Ints:
        """The node of each categorical attribute."""
        nodes = [
            # A parent has a larger code than its children: the lowest node is the smallest.
            int(part[part >= 0].min()) - self._start[place]
            for place, part in enumerate(np.split(path, self._columns[1:-1]))
            if len(part)
        ]
        return np.array(nodes, np.int32)

    def leaf_ends(self, nodes: Ints) -> tuple[Ints, Ints]:
        """The first and the last leaf under the node of each categorical attribute."""
        pairs = list(zip(self._trees, nodes.tolist(), strict=True))
        first = np.array([tree.first_leaf[node] for tree, node in pairs], np.int32)
        return first, np.array([tree.last_leaf[node] for tree, node in pairs], np.int32)

    def to_codes(self, box: Extent) -> Box:
        """Ranges of codes, as they are sent."""
        first, last = self.leaf_ends(self.nodes(box.path))
        ends = box.edge.astype(np.int32)
        return Box(
            np.concatenate([ends[: self.numeric], first]),
            np.concatenate([-ends[self.numeric :], last]),
        )

    def from_codes(self, box: Box, nodes: Ints) -> Extent:
        """The box of these ranges, whose categorical ones are covered by `nodes`."""
        low, high = box.low[: self.numeric], box.high[: self.numeric]
        paths = [paths[node] for paths, node in zip(self._paths, nodes.tolist(), strict=True)]
        return Extent(
            np.concatenate([low, -high]).astype(np.float64),
            np.concatenate(paths) if paths else np.zeros(0, np.int32),
            np.concatenate([self._units(low), -self._units(high)]),
        )

    def _units(self, code: Ints) -> Floats:
        """Grid coordinates in the attributes' own units; the ends of a domain exactly."""
        values = self._bottom + code * ((self._top - self._bottom) / GRID)
        values = np.where(code == 0, self._bottom, values)
        return np.where(code == GRID, self._top, values)


def _paths(tree: Hierarchy, start: int) -> Ints:
    """For each node the nodes from the root down to it, then -1."""
    above: list[list[int]] = [[] for _ in tree.names]
    # A parent has a larger code than its children.
    for node in reversed(range(len(tree.names))):
        parent = int(tree.parents[node])
        above[node] = [*(above[parent] if parent >= 0 else []), start + node]
    depth = max(map(len, above))
    return np.array([path + [-1] * (depth - len(path)) for path in above], np.int32)


def _steps(tree: Hierarchy) -> list[float]:
    """Each node's VInfoloss less that of its parent, in whole 1/GRID."""
    cost = np.rint(tree.loss() * GRID)
    return [
        float(cost[node] - (cost[parent] if parent >= 0 else 0.0))
        for node, parent in enumerate(tree.parents.tolist())
    ]
