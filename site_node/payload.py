"""The columns of a record that wait at the site until the machine has decided its outcome."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_SMALL_ROWS: Final = 8_192


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    first: int  # position of its first record
    row: NDArray[np.int64]
    columns: dict[str, pa.Array]


def _joined(left: _Piece, right: _Piece) -> _Piece:
    columns = {name: pa.concat_arrays([c, right.columns[name]]) for name, c in left.columns.items()}
    return _Piece(left.first, np.concatenate([left.row, right.row]), columns)


class Payload:
    """Keeps records by position; bounded by the delay, because old ones are dropped."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._pieces: deque[_Piece] = deque()
        self._next = 0

    def append(self, row: NDArray[np.int64], columns: dict[str, pa.Array]) -> None:
        """Keep the next records."""
        piece = _Piece(self._next, row, columns)
        self._next += len(row)
        # A pipe may bring one record at a time: many small pieces would make every `take` slow.
        while self._pieces and len(self._pieces[-1].row) <= len(piece.row) < _SMALL_ROWS:
            piece = _joined(self._pieces.pop(), piece)
        self._pieces.append(piece)

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
