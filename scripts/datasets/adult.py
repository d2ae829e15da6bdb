"""UCI Adult (Census Income): 32,561 + 16,281 persons, of which 45,222 have no value missing.

Traps of the files: a blank after each comma, no header line, '?' for missing, a first line
'|1x3 Cross validator' and full stops behind the labels in the test part, an empty last line.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from core.errors import DataError
from scripts.datasets.entry import Download, Entry, Piece
from scripts.datasets.tables import first

COLUMNS: Final = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
NUMERIC: Final = {
    "age",
    "fnlwgt",
    "education-num",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
}
MISSING: Final = "?"
TEST_HEADER: Final = b"|1x3"

Part = Literal["data", "test", "all"]


def load(data_dir: Path, *, part: Part = "data", complete_only: bool = True) -> pa.Table:
    """Read the training part, the test part or both, in file order.

    With `complete_only` the rows with a missing value are left out; without, they say '?'.
    """
    parts = ("data", "test") if part == "all" else (part,)
    table = pa.concat_tables([_read(data_dir / "adult" / f"adult.{each}") for each in parts])
    return table.filter(_complete(table)) if complete_only else table


def _read(file: Path) -> pa.Table:
    try:
        text = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}") from error
    if text.startswith(TEST_HEADER):
        text = text.partition(b"\n")[2]
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(text.replace(b", ", b",")),
            read_options=pyarrow.csv.ReadOptions(column_names=COLUMNS),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={c: pa.int64() if c in NUMERIC else pa.string() for c in COLUMNS},
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{file}: {error}") from error
    income = pc.utf8_rtrim(table["income"], characters=".")
    return table.set_column(table.num_columns - 1, "income", income)


def _complete(table: pa.Table) -> Any:
    """Tell which rows have no value missing."""
    present = (pc.not_equal(table[c], MISSING) for c in COLUMNS if c not in NUMERIC)
    return reduce(pc.and_, present)


def batches(folder: Path, rows: int | None, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield the complete rows of the training part."""
    yield from first(load(folder), rows)


def _tree_lines(attribute: str, file: Path) -> bytes:
    """Rewrite one tree of tds-spark's taxonomytree.json as ARX lines: leaf first, root last."""
    tree = json.loads(file.read_bytes())[attribute.replace("-", "_")]
    return "".join(f"{';'.join(path)}\n" for path in _paths(tree, ())).encode()


def _paths(node: dict[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    here = (node["parent"], *above)
    if not node["leaves"]:
        yield here
    for child in node["leaves"]:
        yield from _paths(child, here)


def _hierarchy(attribute: str) -> str:
    return f"adult/hierarchies-tds/adult_tds_{attribute}.csv"


_TREES: Final = {
    "workclass": "1bd21c3d9c9eac72e7254f8ffa50974272e0b4cf3001e7dff92d82afb8aa671a",
    "education": "2dc5c6fcf942e3e21728faab4103bdde645beeb1f9097f4ac2335e422744c289",
    "marital-status": "4da63aae04d1d2d64f426c375df1cadfae21b4c79003b5ed0c0ac4a4c572e207",
    "occupation": "a45d2b505fc8861ccfd1eb55e1027d14013c00f25ac9de91005f8197b7ae950d",
    "native-country": "6b7d5d1f5156f1e78bb9cbcf00d3feb3c387b31a87f0dc772aba749ae8d3713e",
}
_UCI: Final = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"
_TDS: Final = (
    "https://raw.githubusercontent.com/micophilip/tds-spark/"
    "7a3360843ec8c69ca757b33804857df97ab12add/src/main/resources/taxonomytree.json"
)

ENTRY: Final = Entry(
    name="adult",
    about="UCI Adult, complete rows of the training part",
    rows=30_162,
    persons=30_162,
    licence="CC BY 4.0; hierarchies MIT",
    needs=("adult/adult.data", *(_hierarchy(attribute) for attribute in _TREES)),
    downloads=(
        Download(
            url=f"{_UCI}/adult.data",
            pieces=(
                Piece(
                    path="adult/adult.data",
                    sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
                ),
            ),
        ),
        Download(
            url=f"{_UCI}/adult.test",
            pieces=(
                Piece(
                    path="adult/adult.test",
                    sha256="a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
                ),
            ),
        ),
        Download(
            url=_TDS,
            pieces=tuple(
                Piece(path=_hierarchy(a), sha256=sha256, extract=partial(_tree_lines, a))
                for a, sha256 in _TREES.items()
            ),
        ),
    ),
    read=batches,
)
