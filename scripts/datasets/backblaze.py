"""Backblaze drive stats, 10 to 16 April 2013: each drive's power-on hours, day by day.

The stand-in for January 2017, which the DOCA paper used. The "persons" are drives.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from core.errors import DataError
from scripts.datasets.entry import Download, Entry, Piece
from scripts.datasets.tables import first, read_csv

NAME: Final = "backblaze/backblaze_2013-04-10_to_16_smart9.csv"
COLUMNS: Final = ("date", "serial_number", "model", "capacity_bytes", "failure", "smart_9_raw")
DAYS: Final = tuple(f"2013-04-{day}" for day in range(10, 17))
# These look like numbers and are names.
CODES: Final = ("capacity_bytes", "failure")


def load(data_dir: Path) -> pa.Table:
    """Read all seven days, in file order, which is day by day."""
    return read_csv(data_dir, f"{NAME}.gz", dict.fromkeys(CODES, pa.string()))


def batches(folder: Path, rows: int | None, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield the readings day by day."""
    yield from first(load(folder), rows)


def _seven_days(file: Path) -> bytes:
    """Take six columns of seven days out of Backblaze's archive of the year."""
    text = io.StringIO(newline="")
    out = csv.writer(text, lineterminator="\n")
    out.writerow(COLUMNS)
    with zipfile.ZipFile(file) as archive:
        members = {Path(name).name: name for name in archive.namelist() if "MACOSX" not in name}
        for day in DAYS:
            if f"{day}.csv" not in members:
                raise DataError(f"the archive holds no {day}.csv")
            with archive.open(members[f"{day}.csv"]) as source:
                rows = csv.DictReader(io.TextIOWrapper(source, encoding="utf-8"))
                out.writerows([row[column] for column in COLUMNS] for row in rows)
    return text.getvalue().encode()


ENTRY: Final = Entry(
    name="backblaze",
    about="power-on hours of disk drives, a week of 2013",
    rows=149_532,
    persons=21_780,
    person_column="serial_number",
    licence="Backblaze terms: cite, do not sell",
    needs=(f"{NAME}.gz",),
    downloads=(
        Download(
            url="https://f001.backblazeb2.com/file/Backblaze-Hard-Drive-Data/data_2013.zip",
            pieces=(
                Piece(
                    path=NAME,
                    sha256="1cb2e85eef9298e24c0fccc6a3f10ada417a241a4fc1048e7f5797dfbc755d74",
                    extract=_seven_days,
                ),
            ),
        ),
    ),
    read=batches,
)
