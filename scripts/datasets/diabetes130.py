"""Diabetes 130-US Hospitals, 1999-2008: 101,766 hospital stays of 71,518 patients.

The table has neither hospital nor date. Rows are put in the order of `encounter_id`, the nearest
thing to time that it has; sites have to be made by dealing the rows out. A column `diagnosis` is
added: the chapter of ICD-9 that the main diagnosis, `diag_1`, belongs to.
"""

from __future__ import annotations

import zipfile
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from core.errors import DataError
from scripts.datasets.entry import Download, Entry, Piece
from scripts.datasets.tables import first, read_csv

FILE: Final = "diabetes130/diabetic_data.csv.gz"
# These look like numbers and are names.
CODES: Final = (
    "patient_nbr",
    "admission_type_id",
    "discharge_disposition_id",
    "admission_source_id",
    "diag_1",
    "diag_2",
    "diag_3",
)
MISSING: Final = "?"

# ICD-9 by the first code of each chapter; diabetes is taken out of the endocrine diseases.
CHAPTERS: Final = (
    (1, "infection"),
    (140, "neoplasm"),
    (240, "endocrine"),
    (250, "diabetes"),
    (251, "endocrine"),
    (280, "blood"),
    (290, "mental"),
    (320, "nervous-system"),
    (390, "circulation"),
    (460, "respiration"),
    (520, "digestion"),
    (580, "urinary-and-genital"),
    (630, "pregnancy"),
    (680, "skin"),
    (710, "bones-and-muscles"),
    (740, "inborn"),
    (760, "around-birth"),
    (780, "symptoms"),
    (800, "injury"),
)
EXTERNAL_CAUSE: Final = "external-cause"  # codes that begin with E
OTHER_CONTACT: Final = "other-contact"  # codes that begin with V: rehabilitation, aftercare


def chapter(code: str) -> str:
    """Name the chapter of an ICD-9 code such as '250.83' or 'V57'; a missing one stays missing."""
    if code == MISSING:
        return MISSING
    if code[0] in "EV":
        return EXTERNAL_CAUSE if code[0] == "E" else OTHER_CONTACT
    starts = [start for start, _ in CHAPTERS]
    return CHAPTERS[bisect_right(starts, float(code)) - 1][1]


def load(data_dir: Path) -> pa.Table:
    """Read all stays in the order of their numbers, with the added column `diagnosis`."""
    table = read_csv(data_dir, FILE, dict.fromkeys(CODES, pa.string())).sort_by("encounter_id")
    codes = table["diag_1"].combine_chunks().dictionary_encode()
    chapters = pa.array([chapter(code) for code in codes.dictionary.to_pylist()])
    return table.append_column("diagnosis", chapters.take(codes.indices))


def batches(folder: Path, rows: int | None, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield the stays in the order of their numbers."""
    yield from first(load(folder), rows)


def _member(name: str, file: Path) -> bytes:
    """Take one file out of UCI's archive, whatever folder and spelling it has there."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.namelist():
            if member.rpartition("/")[2].lower() == name.lower():
                return archive.read(member)
    raise DataError(f"the archive holds no {name}")


ENTRY: Final = Entry(
    name="diabetes130",
    about="hospital stays of diabetics, 130 US hospitals",
    rows=101_766,
    persons=71_518,
    person_column="patient_nbr",
    licence="CC BY 4.0",
    needs=(FILE,),
    downloads=(
        Download(
            url=(
                "https://archive.ics.uci.edu/static/public/296/"
                "diabetes+130-us+hospitals+for+years+1999-2008.zip"
            ),
            pieces=(
                Piece(
                    path="diabetes130/diabetic_data.csv",
                    sha256="0689e7ec031237dc63031b938805c48377748761a3b26acab621567afa24df97",
                    extract=partial(_member, "diabetic_data.csv"),
                ),
            ),
        ),
    ),
    read=batches,
)
