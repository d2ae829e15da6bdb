"""Small steps that the readers of the data sets share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from core.errors import DataError
from scripts.datasets.places import locate


def read_csv(folder: Path, path: str, types: Mapping[str, Any]) -> pa.Table:
    """Read a CSV file with a header line; columns in `types` get that type, '?' stays '?'."""
    file = locate(folder, path)
    if file is None:
        raise DataError(f"{folder / path}: no such file")
    options = pyarrow.csv.ConvertOptions(column_types=dict(types), strings_can_be_null=False)
    try:
        return pyarrow.csv.read_csv(file, convert_options=options)
    except pa.ArrowInvalid as error:
        raise DataError(f"{file}: {error}") from error


def first(table: pa.Table, rows: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the table's first rows as batches."""
    yield from table.slice(0, rows).to_batches(max_chunksize=65_536)


def repeated_order(size: int, rows: int, seed: int) -> NDArray[np.int64]:
    """List places in a set of `size` rows: all, in a new order each time, until they are `rows`."""
    random = np.random.default_rng(seed)
    rounds = [random.permutation(size) for _ in range(-(-rows // size))]
    return np.concatenate([np.zeros(0, np.int64), *rounds])[:rows]
