"""Pima Indians Diabetes: 768 women, eight measurements and whether diabetes was found.

The rights are unclear and people have objected to the set's use, so dcastle does not download it.
Zeros stand for missing values in several columns, as in the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from scripts.datasets.entry import Entry
from scripts.datasets.tables import first, read_csv

FILE: Final = "pima/pima-indians-diabetes.csv"


def load(data_dir: Path) -> pa.Table:
    """Read all rows in file order."""
    return read_csv(data_dir, FILE, {"outcome": pa.string()})


def batches(folder: Path, rows: int | None, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in file order."""
    yield from first(load(folder), rows)


ENTRY: Final = Entry(
    name="pima",
    about="diabetes among Pima women; only to repeat published work",
    rows=768,
    persons=768,
    licence="unclear, not for release",
    needs=(FILE,),
    no_download=(
        "dcastle does not download 'pima': UCI withdrew it over permissions; "
        f"who may use it puts the file at {FILE} in a data folder"
    ),
    read=batches,
)
