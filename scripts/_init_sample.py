"""The first rows of a data file, as a pyarrow table: CSV, JSON lines or Parquet, gzip by suffix."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median_low
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from core.errors import DataError

DELIMITERS: Final = (",", ";", "\t", "|")
_HEAD_BYTES: Final = 1 << 18
_HEAD_ROWS: Final = 50
_BLOCK_BYTES_MAX: Final = 2**31 - 1
_JSON_SUFFIXES: Final = (".json", ".jsonl", ".ndjson")
_PARQUET_SUFFIXES: Final = (".parquet", ".pq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Some rows of a file; `delimiter` is None where the format has none."""

    table: pa.Table
    delimiter: str | None
    warnings: tuple[str, ...] = ()


def read_sample(path: Path, *, rows: int) -> Sample:
    """Read the first `rows` rows of `path`; raises DataError for what has no columns and rows."""
    try:
        sample = _read(path, rows)
    except OSError as error:
        # pyarrow's own text says the path again, and more.
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise DataError(f"cannot read '{path}': {reason}") from error
    except pa.ArrowException as error:
        first_line = str(error).partition("\n")[0]
        raise DataError(f"cannot read '{path}' as {_format(path)}: {first_line}") from error
    names = sample.table.column_names
    repeated = [name for name in dict.fromkeys(names) if name and names.count(name) > 1]
    if repeated:
        raise DataError(f"'{path}' has several columns named {', '.join(map(repr, repeated))}")
    if not any(names):
        raise DataError(f"'{path}' has no columns with a name")
    if not sample.table.num_rows:
        doubts = "".join(f"; {warning}" for warning in sample.warnings)
        raise DataError(f"'{path}' has columns but no rows to learn from{doubts}")
    return sample


def _format(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in _JSON_SUFFIXES:
        return "JSON lines"
    return "Parquet" if suffix in _PARQUET_SUFFIXES else "CSV"


def _read(path: Path, rows: int) -> Sample:
    # pyarrow unpacks by suffix: `.gz` and others.
    with pa.input_stream(str(path)) as stream:
        head = stream.read(_HEAD_BYTES)
    if not head.strip():
        raise DataError(f"'{path}' is empty")
    match _format(path):
        case "JSON lines":
            return Sample(table=_read_json(path, rows), delimiter=None)
        case "Parquet":
            return Sample(table=_read_parquet(path, rows), delimiter=None)
        case _:
            return _read_csv(path, rows, _delimiter(head.decode(errors="replace")))


def _delimiter(head: str) -> str:
    """Pick the delimiter that splits the rows, and the header just so, into the most fields."""

    def fields(delimiter: str) -> int:
        lines = head.splitlines(keepends=True)[:_HEAD_ROWS]
        try:
            counts = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            return 0
        # Decimal commas split the rows but not the header; the median forgives a bad row.
        return counts[0] if counts[0] == median_low(counts) else 0

    return max(DELIMITERS, key=fields)


def _read_csv(path: Path, rows: int, delimiter: str) -> Sample:
    """Read every column as text: what looks like a number in one block may not in the next."""
    skipped = 0

    def skip(row: object) -> str:
        nonlocal skipped
        skipped += 1
        return "skip"

    def batches(types: dict[str, pa.DataType]) -> Any:
        return pyarrow.csv.open_csv(
            str(path),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip
            ),
            convert_options=pyarrow.csv.ConvertOptions(column_types=types),
            # One thread, so that rows are skipped, and counted, in order.
            read_options=pyarrow.csv.ReadOptions(use_threads=False),
        )

    with batches({}) as reader:
        names = reader.schema.names
    skipped = 0
    with batches(dict.fromkeys(names, pa.string())) as reader:
        table = _first(reader, reader.schema, rows)
    return Sample(table=table, delimiter=delimiter, warnings=tuple(_doubts(names, skipped)))


def _doubts(names: list[str], skipped: int) -> Iterator[str]:
    if skipped:
        yield f"{skipped:,} rows do not have {len(names)} fields and were left out"
    if "" in names:
        yield "a column without a name was left out"
    numbers = [name for name in names if _is_number(name)]
    if numbers:
        yield f"the first line should name the columns, but has {numbers[0]!r}"


def _read_json(path: Path, rows: int) -> pa.Table:
    with pa.input_stream(str(path)) as stream:
        lines = b"".join(islice(_lines(stream), rows))
    # One block for all: a column's type is then found from all rows, and no row crosses a block.
    block = min(len(lines) + 1, _BLOCK_BYTES_MAX)
    options = pyarrow.json.ReadOptions(use_threads=False, block_size=block)
    return pyarrow.json.read_json(pa.BufferReader(lines), read_options=options)


def _lines(stream: Any) -> Iterator[bytes]:
    rest = b""
    while block := stream.read(_HEAD_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        yield from (line + b"\n" for line in lines if line.strip())
    if rest.strip():
        yield rest


def _read_parquet(path: Path, rows: int) -> pa.Table:
    source: Any = str(path)
    if path.suffix.lower() == ".gz":
        with pa.input_stream(str(path)) as stream:
            source = pa.BufferReader(stream.read())
    with pyarrow.parquet.ParquetFile(source) as file:
        return _first(file.iter_batches(batch_size=min(rows, 65_536)), file.schema_arrow, rows)


def _first(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> pa.Table:
    taken: list[pa.RecordBatch] = []
    wanted = rows
    for batch in batches:
        taken.append(batch.slice(0, wanted))
        wanted -= taken[-1].num_rows
        if wanted <= 0:
            break
    return pa.Table.from_batches(taken, schema)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
