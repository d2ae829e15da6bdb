"""A piece of the input on its way from the source to the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.csv
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

    `columns` are those that the schema uses, `names` all that the input has here. `csv_bytes` is
    how long the rows are as CSV, all columns included; 0 when nobody measured.
    """

    row: NDArray[np.int64]
    columns: dict[str, pa.Array]
    broken: list[BrokenRow] = field(default_factory=list)
    names: tuple[str, ...] = ()
    csv_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How to read: which columns, which are numbers or leaves, the words for a missing value.

    `measure` asks for the length of the rows as CSV where that costs something.
    """

    columns: tuple[str, ...]
    numeric: frozenset[str]
    categorical: frozenset[str]
    missing: tuple[str, ...]
    delimiter: str | None
    measure: bool = False


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


def csv_bytes(batch: pa.RecordBatch) -> int:
    """How long these rows are as arrow writes them to CSV, without a header."""
    nested = [i for i, kind in enumerate(batch.schema.types) if pa.types.is_nested(kind)]
    for place in nested:
        texts = [None if value is None else str(value) for value in batch.column(place).to_pylist()]
        batch = batch.set_column(place, batch.schema.names[place], pa.array(texts, pa.string()))
    length = pa.MockOutputStream()
    pyarrow.csv.write_csv(batch, length, pyarrow.csv.WriteOptions(include_header=False))
    return int(length.size())
