"""The auditor's own reading of data files: CSV, JSON Lines and Parquet as columns of text.

A publication and a trace must be sound, so a fault in them is an error. The original is what it
is: a row of it that cannot be read is kept as nulls, because rows are counted.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from core.errors import DataError

_DELIMITERS: Final = (",", ";", "\t", "|")
# A CSV record may not be longer than a block.
_BLOCK_BYTES: Final = 16 * 1024 * 1024
# Few enough to stay in the processor's cache.
_JSON_BATCH_ROWS: Final = 4_096

_TEXT: Final = pa.dictionary(pa.int32(), pa.string())
_BYTES: Final = pa.dictionary(pa.int32(), pa.binary())
_TRACE: Final = {"row": pa.int64(), "class_id": pa.int64(), "outcome": _TEXT}

Record = dict[str, Any]


def read_output(file: Path, expected: Sequence[str]) -> pa.Table:
    """Read every column of a publication; a CSV's delimiter is told by the `expected` names."""
    with _complaints(file):
        match _format(file):
            case "jsonl":
                return _read_json(file)
            case "parquet":
                return _read_parquet(file, None)
        header = _read_header(file, expected)
        return _read_csv(file, header, dict.fromkeys(header.names, _TEXT))


def read_original(file: Path, columns: Sequence[str], delimiter: str | None) -> pa.Table:
    """Read these columns of the raw data; a row that cannot be read is all null."""
    with _complaints(file):
        match _format(file):
            case "jsonl":
                return _read_raw_json(file, columns)
            case "parquet":
                return _read_parquet(file, columns)
        return _read_raw_csv(file, columns, delimiter)


def read_trace(file: Path) -> pa.Table:
    """Read what the audit needs of a trace."""
    with _complaints(file):
        header = _read_header(file, list(_TRACE))
        _require(file, header.names, list(_TRACE))
        return _read_csv(file, header, _TRACE)


@contextmanager
def _complaints(file: Path) -> Iterator[None]:
    """Turn what readers raise into one line with the file's name."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{file}: cannot be read: {reason}") from error


def _format(file: Path) -> str:
    suffix = Path(file.name.removesuffix(".gz")).suffix
    return {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}.get(suffix, "csv")


def _open(file: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb")


def _require(file: Path, names: Sequence[str], columns: Sequence[str]) -> None:
    missing = ", ".join(f"'{name}'" for name in columns if name not in names)
    if missing:
        raise DataError(f"{file}: lacks the column {missing}")


@dataclass(frozen=True, slots=True)
class _Header:
    """A CSV's first line; `is_all` when the file ends with it, and not even with a line end."""

    delimiter: str
    names: list[str]
    is_all: bool


def _read_header(file: Path, expected: Sequence[str], delimiter: str | None = None) -> _Header:
    """Find the delimiter, unless it is given, by which most expected names appear."""
    with _open(file) as stream:
        # Blank lines do not count, here as in Arrow.
        first = next((line for line in stream if line.strip()), b"")
    line = first.decode("utf-8-sig", errors="replace")
    if not line:
        raise DataError(f"{file}: has no header line")
    headers = {
        mark: next(csv.reader([line], delimiter=mark))
        for mark in ((delimiter,) if delimiter else _DELIMITERS)
    }
    best = max(headers, key=lambda mark: len(set(expected).intersection(headers[mark])))
    return _Header(best, headers[best], not line.endswith("\n"))


def _read_csv(
    file: Path,
    header: _Header,
    types: Mapping[str, Any],
    skip: Callable[[Any], str] | None = None,
) -> pa.Table:
    """Read the columns that have a type; `skip` is told of rows with a wrong number of fields."""
    if header.is_all:
        return pa.table({name: pa.array([], kind) for name, kind in types.items()})
    # All of them when all are wanted, so that a name that is there twice stays there twice.
    some = list(types) if set(types) != set(header.names) else None
    return pa.csv.read_csv(
        file,
        # Only a single thread knows the numbers of the rows it skips.
        read_options=pa.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=skip is None),
        parse_options=pa.csv.ParseOptions(
            delimiter=header.delimiter, newlines_in_values=True, invalid_row_handler=skip
        ),
        convert_options=pa.csv.ConvertOptions(column_types=types, include_columns=some),
    )


def _read_raw_csv(file: Path, columns: Sequence[str], delimiter: str | None) -> pa.Table:
    header = _read_header(file, columns, delimiter)
    _require(file, header.names, columns)
    broken: list[int] = []

    def skip(row: Any) -> str:
        # Arrow counts records from 1 and the header is the first.
        broken.append(row.number - 2)
        return "skip"

    # Bytes, because one row that is not UTF-8 must not cost the others.
    table = _read_csv(file, header, dict.fromkeys(columns, _BYTES), skip)
    arrays = [_decode(column) for column in table.columns]
    return _put_back(pa.table(arrays, names=table.column_names), broken)


def _decode(column: Any) -> Any:
    """Turn bytes into text; what is not UTF-8 becomes null."""
    column = column.unify_dictionaries()
    if not column.num_chunks:
        return pa.chunked_array([], type=_TEXT)
    words = column.chunk(0).dictionary
    try:
        texts = words.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([_utf8(word) for word in words.to_pylist()], pa.string())
    # One chunk, so that nobody has to compare the chunks' dictionaries again.
    indices = pa.concat_arrays([chunk.indices for chunk in column.chunks])
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, texts)])


def _utf8(word: bytes) -> str | None:
    try:
        return word.decode()
    except UnicodeDecodeError:
        return None


def _put_back(table: pa.Table, broken: list[int]) -> pa.Table:
    """Insert a row of nulls wherever a row was skipped."""
    if not broken:
        return table
    absent = np.zeros(len(table) + len(broken), dtype=np.bool_)
    absent[broken] = True
    places = np.cumsum(~absent) - 1
    return table.take(pa.array(places, mask=absent))


def _read_json(file: Path) -> pa.Table:
    """Read every name that occurs as a column."""
    tables = [
        _tabulate(batch, list(dict.fromkeys(name for record in batch for name in record)))
        for batch in _json_batches(file, lenient=False)
    ]
    return pa.concat_tables(tables or [pa.table({})], promote_options="default")


def _read_raw_json(file: Path, columns: Sequence[str]) -> pa.Table:
    absent = list(columns)
    tables = [pa.table({name: pa.array([], _TEXT) for name in columns})]
    for batch in _json_batches(file, lenient=True):
        absent = [name for name in absent if not any(name in record for record in batch)]
        tables.append(_tabulate(batch, columns))
    if len(tables) > 1:
        _require(file, [name for name in columns if name not in absent], columns)
    return pa.concat_tables(tables)


def _json_batches(file: Path, *, lenient: bool) -> Iterator[list[Record]]:
    with _open(file) as stream:
        records = _json_records(file, stream, lenient)
        while batch := list(islice(records, _JSON_BATCH_ROWS)):
            yield batch


def _json_records(file: Path, stream: Iterable[bytes], lenient: bool) -> Iterator[Record]:
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        record = _parse(line)
        if record is None and not lenient:
            raise DataError(f"{file}:{number}: not a JSON object with each name once")
        yield record or {}


def _parse(line: bytes) -> Record | None:
    try:
        record = _JSON.decode(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record else None


def _unique(pairs: list[tuple[str, Any]]) -> Record:
    # A reader would see only the last value of a name, an attacker sees them all.
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a name occurs twice")
    return record


# Numbers stay as they are written.
_JSON: Final = json.JSONDecoder(
    parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_unique
)


def _tabulate(records: Sequence[Record], names: Sequence[str]) -> pa.Table:
    arrays = [_strings([record.get(name) for record in records]) for name in names]
    return pa.table(arrays, names=list(names))


def _strings(values: list[Any]) -> Any:
    try:
        return pa.array(values, pa.string()).dictionary_encode()
    except (TypeError, UnicodeEncodeError):
        # A value of JSON's other kinds, or half of a surrogate pair, which is no text.
        return pa.array([_text(value) for value in values], pa.string()).dictionary_encode()


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode(errors="replace").decode()


def _read_parquet(file: Path, columns: Sequence[str] | None) -> pa.Table:
    with pa.parquet.ParquetFile(file) as source:
        names = source.schema_arrow.names
        _require(file, names, columns or ())
        table = source.read(columns=None if columns is None else list(columns))
    return pa.table([_stringify(column) for column in table.columns], names=table.column_names)


def _stringify(column: Any) -> Any:
    # A float32 is the float64 it converts to, not the shorter text it prints.
    if pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
    return column.cast(pa.string()).dictionary_encode()
