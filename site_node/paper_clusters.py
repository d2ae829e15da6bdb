"""The open clusters of the `paper` exchange: the set Gamma of one site, own and shared ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from site_node.paper_boxes import BoxSpace, Extent, Extents, Floats
from site_node.paper_values import SensitiveValues, SharedValues

# Rows at first.
_ROWS: Final = 64


@dataclass(slots=True, eq=False)
class Cluster:
    """A working, non-anonymised cluster C. Its box is in OpenClusters and never shrinks."""

    id: int
    own: bool  # it was created here
    slot: int = -1  # its row in OpenClusters
    members: dict[int, None] = field(default_factory=dict)  # positions, in the order they joined
    persons: dict[int, int] = field(default_factory=dict)  # of local tuples, with their number
    values: dict[int, int] = field(default_factory=dict)
    shared_size: int = 0  # what the message of one other site said
    shared_values: SharedValues = field(default_factory=dict)
    known: bool = False  # other sites know it: it was sent to them, or came from one
    diverse: bool = False  # C.diversity >= l

    @property
    def local_size(self) -> int:
        """C.localsize: distinct persons here."""
        return len(self.persons)

    @property
    def size(self) -> int:
        """C.size: the local size and the shared size (section 3.6)."""
        return len(self.persons) + self.shared_size


class OpenClusters:
    """Gamma, a row per cluster, so that a tuple is compared with all of them at once.

    Rows are without gaps: the last one takes the place of one that is deleted. beta limits who is
    created, not how many there are (section 4.3): rows are added as they are needed.
    """

    def __init__(self, space: BoxSpace, values: SensitiveValues, *, k: int) -> None:
        self._space = space
        self._values = values
        self._k = k
        self._list: list[Cluster] = []
        self._by_id: dict[int, Cluster] = {}
        self.largest = 0  # beta+: the most there ever were
        self._box = Extents(
            np.zeros((_ROWS, space.edges)),
            np.zeros((_ROWS, space.places), np.int32),
            np.zeros((_ROWS, space.edges)),
        )
        self._loss = np.zeros(_ROWS)
        self._node_loss = np.zeros(_ROWS)
        self._size = np.zeros(_ROWS, np.int64)
        self._ready = np.zeros(_ROWS, np.bool_)

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Cluster]:
        return iter(self._list)

    def __getitem__(self, row: int) -> Cluster:
        return self._list[row]

    def find(self, cluster_id: int) -> Cluster | None:
        """The open cluster with this id."""
        return self._by_id.get(cluster_id)

    def holds(self, cluster: Cluster) -> bool:
        """Whether the cluster is still open."""
        return self._by_id.get(cluster.id) is cluster

    # --- the columns, a value per row

    @property
    def loss(self) -> Floats:
        """Information loss of each cluster's generalisation."""
        return self._loss[: len(self._list)]

    @property
    def size(self) -> NDArray[np.int64]:
        """C.size of each."""
        return self._size[: len(self._list)]

    @property
    def ready(self) -> NDArray[np.bool_]:
        """Whether C.size >= k and C.diversity >= l."""
        return self._ready[: len(self._list)]

    def enlargements(self, by: Extent) -> Floats:
        """How much each would lose more if it took this in (section 3.3)."""
        rows = len(self._list)
        edge, path, raw = self._box
        many = Extents(edge[:rows], path[:rows], raw)
        return self._space.enlargements_of(many, self._node_loss[:rows], by)

    def merge_enlargements(self, cluster: Cluster) -> Floats:
        """How much this one would lose more if it were merged with each; infinite for itself."""
        rows = len(self._list)
        edge, path, raw = self._box
        many = Extents(edge[:rows], path[:rows], raw)
        wider = self._space.enlargements_by(self.box(cluster), many)
        wider[cluster.slot] = np.inf
        return wider

    # --- changes

    def add(self, cluster: Cluster, box: Extent) -> None:
        """Open a cluster with this box."""
        rows = len(self._list)
        if rows == len(self._loss):
            self._grow()
        cluster.slot = rows
        self._list.append(cluster)
        self._by_id[cluster.id] = cluster
        self.largest = max(self.largest, rows + 1)
        self.set_box(cluster, box)
        cluster.diverse = self._values.diverse(cluster.values, cluster.shared_values)
        self._count(cluster)

    def delete(self, cluster: Cluster) -> None:
        """Take a cluster out; its tuples are the caller's."""
        row, last = cluster.slot, self._list.pop()
        del self._by_id[cluster.id]
        if last is not cluster:
            columns = (*self._box, self._loss, self._node_loss, self._size, self._ready)
            for column in columns:
                column[row] = column[last.slot]
            self._list[row] = last
            last.slot = row
        cluster.slot = -1

    def rename(self, cluster: Cluster, cluster_id: int) -> None:
        """Give a cluster that nobody else knows another id."""
        del self._by_id[cluster.id]
        cluster.id = cluster_id
        self._by_id[cluster_id] = cluster

    def box(self, cluster: Cluster) -> Extent:
        """The cluster's generalisation; a view."""
        return self._box.one(cluster.slot)

    def set_box(self, cluster: Cluster, box: Extent) -> None:
        """Replace the generalisation by a larger one."""
        row = cluster.slot
        self._box.edge[row], self._box.path[row], self._box.raw[row] = box
        self._node_loss[row] = self._space.node_loss(box.path)
        self._loss[row] = self._space.loss(box)

    def enlarge(self, cluster: Cluster, by: Extent) -> None:
        """Make the generalisation contain this, too."""
        self.set_box(cluster, self._space.joined(self.box(cluster), by))

    def put(self, cluster: Cluster, position: int, person: int, value: int) -> None:
        """Insert a tuple; the box is the caller's affair."""
        cluster.members[position] = None
        one_more(cluster.persons, person)
        if value in cluster.values:
            cluster.values[value] += 1
        else:
            cluster.values[value] = 1
            if not cluster.diverse:
                cluster.diverse = self._values.diverse(cluster.values, cluster.shared_values)
        self._count(cluster)

    def touch(self, cluster: Cluster, tuple_: Extent) -> None:
        """A tuple that enlarges nothing may still reach further between two points of the grid."""
        raw = self._box.raw[cluster.slot]
        np.minimum(raw, tuple_.raw, out=raw)

    def take(self, cluster: Cluster, position: int, person: int, value: int) -> None:
        """Remove a tuple."""
        del cluster.members[position]
        one_less(cluster.persons, person)
        if one_less(cluster.values, value):
            cluster.diverse = self._values.diverse(cluster.values, cluster.shared_values)
        self._count(cluster)

    def set_shared(self, cluster: Cluster, size: int, values: SharedValues) -> None:
        """Write down what other sites have of the cluster."""
        cluster.shared_size, cluster.shared_values = size, values
        cluster.diverse = self._values.diverse(cluster.values, values)
        self._count(cluster)

    def absorb(self, cluster: Cluster, other: Cluster) -> None:
        """Merge `other` into the cluster and delete it (section 4.7).

        Shared sizes and values are added, as the paper has it, although nobody will ever release
        those tuples together with this cluster: they are counted like phantoms.
        """
        self.enlarge(cluster, self.box(other))
        self.delete(other)
        cluster.members.update(other.members)
        for mine, theirs in ((cluster.persons, other.persons), (cluster.values, other.values)):
            for key, count in theirs.items():
                mine[key] = mine.get(key, 0) + count
        values = self._values.joined(cluster.shared_values, other.shared_values)
        self.set_shared(cluster, cluster.shared_size + other.shared_size, values)

    def _count(self, cluster: Cluster) -> None:
        size = len(cluster.persons) + cluster.shared_size
        self._size[cluster.slot] = size
        self._ready[cluster.slot] = size >= self._k and cluster.diverse

    def _grow(self) -> None:
        edge, path, raw = self._box
        self._box = Extents(_doubled(edge), _doubled(path), _doubled(raw))
        self._loss, self._node_loss = _doubled(self._loss), _doubled(self._node_loss)
        self._size, self._ready = _doubled(self._size), _doubled(self._ready)


def one_more(counts: dict[int, int], key: int) -> None:
    """Count one more."""
    counts[key] = counts.get(key, 0) + 1


def one_less(counts: dict[int, int], key: int) -> bool:
    """Count one less; whether that was the last."""
    if counts[key] > 1:
        counts[key] -= 1
        return False
    del counts[key]
    return True


def _doubled(column: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([column, np.zeros_like(column)])
