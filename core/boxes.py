"""Boxes as they travel: coarse ranges, and how far a class reaches beyond one.

A box is a range of codes per quasi-identifier: grid coordinates of the numeric ones, leaves of the
categorical ones. On the wire an end is one byte on a grid of at most 256 points, rounded outward
(but for the rounding of the coordinates themselves), so that the relay can compare boxes without
knowing what they mean. Whoever uses a box that has travelled uses it as it arrived, the sender
included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.kernels.layout import GRID
from core.schema import Attribute, Schema

# The last point of the grid; its first and last are exactly the ends of the domain.
POINTS: Final = 255

Ints = NDArray[np.int32]
Bytes = NDArray[np.uint8]


def grid_points(attribute: Attribute) -> int:
    """The last point of a numeric attribute's grid.

    Whole numbers of a domain that is not too wide have points of their own: 34 stays 34.
    """
    assert attribute.domain is not None
    width = attribute.domain[1] - attribute.domain[0]
    if width <= POINTS and width == int(width):
        return POINTS // int(width) * int(width)
    return POINTS


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """Both ends of the range of codes of every quasi-identifier, both inclusive."""

    low: Ints  # [D]
    high: Ints  # [D]


class BoxCodec:
    """Boxes of one schema to bytes and back."""

    def __init__(self, schema: Schema) -> None:
        self._numeric = len(schema.numeric)
        self._trees = [a.hierarchy for a in schema.categorical if a.hierarchy is not None]
        self._attributes = self._numeric + len(self._trees)
        leaves = [tree.leaf_count for tree in self._trees]
        # The largest code of each attribute; up to 256 leaves have a point of their own.
        self._last = np.array([GRID] * self._numeric + [count - 1 for count in leaves], np.int64)
        numeric = [grid_points(a) for a in schema.numeric]
        categorical = [min(POINTS, count - 1) for count in leaves]
        self._points = np.array([*numeric, *categorical], np.int64)
        self._divisor = np.maximum(1, self._last)

    @property
    def bytes_per_box(self) -> int:
        """Two for every quasi-identifier."""
        return 2 * self._attributes

    def encode(self, box: Box) -> bytes:
        """The box, rounded outward to the grid.

        Coordinates are rounded themselves: one that is next to a point of the grid is on it.
        """
        slack = np.arange(self._attributes) < self._numeric
        low = np.minimum(box.low + slack, self._last) * self._points // self._divisor
        high = -(-np.maximum(box.high - slack, 0) * self._points // self._divisor)
        return np.stack([low, high], axis=1).astype(np.uint8).tobytes()

    def decode(self, data: bytes) -> Box:
        """The box that arrived; ValueError when this is none."""
        if len(data) != self.bytes_per_box:
            raise ValueError(f"a box has {self.bytes_per_box} bytes here, not {len(data)}")
        ends = np.frombuffer(data, np.uint8).reshape(-1, 2).astype(np.int64)
        if (ends[:, 0] > ends[:, 1]).any() or (ends[:, 1] > self._points).any():
            raise ValueError("a box has ends that are out of order or of the domain")
        steps = np.maximum(1, self._points)
        low = ends[:, 0] * self._last // steps
        high = -(-ends[:, 1] * self._last // steps)
        return Box(low.astype(np.int32), high.astype(np.int32))

    def nodes(self, box: Box) -> Ints:
        """The lowest node that covers each categorical range."""
        return np.array(
            [
                _covering(tree.parents, tree.first_leaf, tree.last_leaf, int(low), int(high))
                for tree, low, high in zip(
                    self._trees, box.low[self._numeric :], box.high[self._numeric :], strict=True
                )
            ],
            np.int32,
        )


def _covering(parents: Ints, first: Ints, last: Ints, low: int, high: int) -> int:
    node = low
    while first[node] > low or last[node] < high:
        node = int(parents[node])
    return node


def pack_sparse(numbers: Bytes) -> bytes:
    """A short code of mostly zero bytes: a bit for each that is not, then those. b"" for zeros."""
    if not numbers.any():
        return b""
    return bytes(np.packbits(numbers != 0).tobytes() + numbers[numbers != 0].tobytes())


def unpack_sparse(data: bytes, length: int) -> Bytes:
    """The numbers behind pack_sparse; ValueError when these are none."""
    numbers = np.zeros(length, np.uint8)
    if not data:
        return numbers
    head = -(-length // 8)
    flags = np.unpackbits(np.frombuffer(data[:head], np.uint8)).astype(np.bool_)
    rest = np.frombuffer(data[head:], np.uint8)
    if len(flags) < length or flags[length:].any() or flags.sum() != len(rest) or not rest.all():
        raise ValueError("not a list of reaches")
    numbers[flags[:length]] = rest
    return numbers
