"""A piece of the input on its way from the source to the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.errors import DataError


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """A row that could not be taken apart into columns."""

    row: int
    kind: str  # the reason without its numbers, to count by
    reason: str
    text: str


@dataclass(slots=True, eq=False)
class RawBatch:
    """Some rows of the input, as columns. `row` is each record's number among all data rows.

    `columns` are those that the schema uses, `names` all that the input has here.
    """

    row: NDArray[np.int64]
    columns: dict[str, pa.Array]
    broken: list[BrokenRow] = field(default_factory=list)
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How to read: which columns, which are numbers or leaves, the words for a missing value."""

    columns: tuple[str, ...]
    numeric: frozenset[str]
    categorical: frozenset[str]
    missing: tuple[str, ...]
    delimiter: str | None


def require_columns(name: str, have: Sequence[str], need: Sequence[str]) -> None:
    """Complain about every column that the schema needs and the data does not have."""
    lacking = [column for column in need if column not in have]
    if lacking:
        raise DataError(
            f"{name}: no column {', '.join(repr(column) for column in lacking)}; "
            f"it has {', '.join(repr(column) for column in have)}"
        )
    twice = sorted({column for column in need if list(have).count(column) > 1})
    if twice:
        raise DataError(f"{name}: more than one column {', '.join(map(repr, twice))}")
