"""The columns of a record that wait at the site until the machine has decided its outcome."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    first: int  # position of its first record
    row: NDArray[np.int64]
    columns: dict[str, pa.Array]


class Payload:
    """Keeps records by position; bounded by the delay, because old ones are dropped."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._pieces: deque[_Piece] = deque()
        self._next = 0

    def append(self, row: NDArray[np.int64], columns: dict[str, pa.Array]) -> None:
        """Keep the next records."""
        self._pieces.append(_Piece(self._next, row, columns))
        self._next += len(row)

    def take(self, position: NDArray[np.int64]) -> tuple[NDArray[np.int64], dict[str, pa.Array]]:
        """The input rows and the columns of the records at these positions, in this order."""
        first = self._pieces[0].first
        place = position - first
        row = np.concatenate([piece.row for piece in self._pieces])[place]
        index = pa.array(place)
        columns = {
            name: pa.chunked_array([piece.columns[name] for piece in self._pieces])
            .take(index)
            .combine_chunks()
            for name in self._names
        }
        return row, columns

    def drop_before(self, position: int) -> None:
        """Forget records that are all decided."""
        while len(self._pieces) > 1 and self._pieces[1].first <= position:
            self._pieces.popleft()
