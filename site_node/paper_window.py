"""The buffer of the `paper` exchange: the tuples of a site that still wait for their outcome."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.events import Records
from core.kernels.layout import power_of_two
from site_node.paper_boxes import BoxSpace, Extent, Extents, Floats

Positions = NDArray[np.int64]  # and other whole numbers, one for each


class Window:
    """A ring: position p is in slot p & (slots - 1). It grows to what delay_tuples needs."""

    def __init__(self, space: BoxSpace, *, delay_tuples: int, everyone_once: bool) -> None:
        self._space = space
        self._delay = delay_tuples
        self._everyone_once = everyone_once
        self._next = 0
        self._slots = 0
        self._allocate(1)

    @property
    def position(self) -> int:
        """Position of the next tuple to arrive."""
        return self._next

    def append(self, records: Records) -> tuple[list[int], list[int]]:
        """Take in the next tuples; returns their persons and values."""
        # Whatever is delay_tuples back is decided before the next one arrives.
        needed = min(self._next, self._delay + 1) + len(records)
        if needed > self._slots:
            self._enlarge(needed)
        new = self._space.of_records(records)
        positions = np.arange(self._next, self._next + len(records))
        slots = positions & (self._slots - 1)
        leaf = records.code[:, self._space.numeric :]
        person = positions if self._everyone_once else records.person
        self._box.edge[slots], self._box.path[slots], self._box.raw[slots] = new
        self._point[slots] = np.concatenate([new.raw, leaf, -leaf], axis=1)
        self._person[slots], self._value[slots] = person, records.value
        self._next += len(records)
        return person.tolist(), records.value.tolist()

    def tuple(self, position: int) -> Extent:
        """The tuple as a box; a view."""
        return self._box.one(position & (self._slots - 1))

    def tuples(self, positions: Positions) -> Extents:
        """Several of them."""
        return self._box.some(positions & (self._slots - 1))

    def point(self, position: int) -> Floats:
        """The tuple's values as ReusableClasses wants them."""
        point: Floats = self._point[position & (self._slots - 1)]
        return point

    def person_at(self, position: int) -> int:
        """Who the tuple is about."""
        return int(self._person[position & (self._slots - 1)])

    def value_at(self, position: int) -> int:
        """Its sensitive value."""
        return int(self._value[position & (self._slots - 1)])

    def person(self, positions: Positions) -> Positions:
        """The same of several tuples."""
        person: Positions = self._person[positions & (self._slots - 1)]
        return person

    def value(self, positions: Positions) -> Positions:
        """The same of several tuples."""
        value: Positions = self._value[positions & (self._slots - 1)]
        return value

    def _allocate(self, slots: int) -> None:
        space = self._space
        self._slots = slots
        self._box = Extents(
            np.zeros((slots, space.edges)),
            np.zeros((slots, space.places), np.int32),
            np.zeros((slots, space.edges)),
        )
        self._point = np.zeros((slots, 2 * (space.numeric + space.categorical)))
        self._person = np.zeros(slots, np.int64)
        self._value = np.zeros(slots, np.int64)

    def _enlarge(self, needed: int) -> None:
        old = self._columns()
        kept = np.arange(max(0, self._next - self._slots), self._next)
        before = kept & (self._slots - 1)
        self._allocate(power_of_two(needed))
        after = kept & (self._slots - 1)
        for column, source in zip(self._columns(), old, strict=True):
            column[after] = source[before]

    def _columns(self) -> list[NDArray[Any]]:
        return [*self._box, self._point, self._person, self._value]
