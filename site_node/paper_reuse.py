"""What a site of the `paper` exchange remembers of the clusters it put out: tau and Omega."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.events import Classes
from site_node.paper_boxes import BoxSpace, Extent, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """A class as it is published: an id and a generalisation."""

    class_id: int
    low: Floats  # [N]
    high: Floats
    node: Ints  # [C]


def published(space: BoxSpace, class_id: int, box: Extent) -> Published:
    """The class with the generalisation of this box."""
    # Adding 0.0 turns -0.0 into 0.0: equal bounds shall be equal bytes.
    low, high = box.raw[: space.numeric] + 0.0, 0.0 - box.raw[space.numeric :]
    return Published(class_id, low, high, space.nodes(box.path))


def table(space: BoxSpace, rows: list[Published]) -> Classes:
    """Classes side by side."""
    intervals, nodes = (len(rows), space.numeric), (len(rows), space.categorical)
    return Classes(
        class_id=np.array([each.class_id for each in rows], np.int64),
        low=np.array([each.low for each in rows], np.float64).reshape(intervals),
        high=np.array([each.high for each in rows], np.float64).reshape(intervals),
        node=np.array([each.node for each in rows], np.int32).reshape(nodes),
    )


class Tau:
    """The average information loss of the mu clusters that were put out last; 0 at first."""

    def __init__(self, mu: int) -> None:
        self._recent: deque[float] = deque(maxlen=mu)
        self._sum = 0.0

    def add(self, loss: float) -> None:
        """A cluster was put out."""
        if len(self._recent) == self._recent.maxlen:
            self._sum -= self._recent[0]
        self._recent.append(loss)
        self._sum += loss

    def above(self, loss: float) -> bool:
        """Whether loss < tau. Losses are whole numbers, so this is exact."""
        return loss * len(self._recent) < self._sum

    def reaches(self, loss: float) -> bool:
        """Whether loss <= tau."""
        return loss * max(1, len(self._recent)) <= self._sum


class ReusableClasses:
    """Omega: good classes that later tuples may be published with, the last `most` of them.

    A class holds a tuple when the published bounds do: `point` is the tuple's numeric values and
    leaves, each followed by all of them with the sign turned, as the limits are.
    """

    def __init__(self, space: BoxSpace, most: int) -> None:
        self._space = space
        self._most = most
        self._next = 0
        self._classes: list[Published] = []
        self._limit = np.zeros((2 * (space.numeric + space.categorical), min(most, 64)))

    def __len__(self) -> int:
        return len(self._classes)

    def add(self, new: Published) -> None:
        """Remember a class; the oldest makes room."""
        if self._most == 0:
            return
        if len(self._classes) < self._most:
            self._classes.append(new)
            if len(self._classes) > self._limit.shape[1]:
                wider = np.zeros((len(self._limit), min(self._most, 2 * self._limit.shape[1])))
                wider[:, : self._limit.shape[1]] = self._limit
                self._limit = wider
        else:
            self._classes[self._next] = new
        first, last = self._space.leaf_ends(new.node)
        self._limit[:, self._next] = np.concatenate([new.low, -new.high, first, -last])
        self._next = (self._next + 1) % self._most

    def containing(self, point: Floats) -> NDArray[np.int64]:
        """Which of them contain the tuple, by their place in here."""
        limits = self._limit[:, : len(self._classes)]
        return np.flatnonzero((limits <= point[:, None]).all(axis=0))

    def __getitem__(self, place: int) -> Published:
        return self._classes[place]
