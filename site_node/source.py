"""Where records come from: CSV, JSON Lines or Parquet, a file or a pipe, batch by batch.

A batch is a bounded piece of the input. Nothing that can be counted as a row is lost on the way: a
row that cannot be taken apart at all travels along as `broken`, with its text.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import numpy as np
import pyarrow as pa

from core.errors import DataError
from site_node.batch import RawBatch, SourceOptions, csv_bytes, require_columns
from site_node.csv_source import read_csv
from site_node.json_source import read_json

# Bytes of text taken in at a time: about 30,000 rows, small beside a window of records.
BLOCK_BYTES: Final = 4 * 1024 * 1024
_PARQUET_ROWS: Final = 32_768


def format_of(name: str) -> str:
    """csv, jsonl or parquet, by the name without .gz; a pipe is CSV."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    last = suffixes[-1] if suffixes else ""
    if last in (".jsonl", ".ndjson"):
        return "jsonl"
    return "parquet" if last == ".parquet" else "csv"


def read_batches(name: str, options: SourceOptions, form: str | None = None) -> Iterator[RawBatch]:
    """Yield the batches of a file, or of standard input for `-`."""
    form = form or format_of(name)
    try:
        if form == "parquet":
            yield from _read_parquet(name, options)
            return
        with _open(name) as stream:
            blocks = _blocks(stream)
            reader = read_json if form == "jsonl" else read_csv
            yield from reader(name, blocks, options)
    except (pa.ArrowException, zlib.error, EOFError, OSError) as error:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        reason = said.splitlines()[0]
        raise DataError(f"{name}: cannot be read: {reason}") from error


def _open(name: str) -> IO[bytes]:
    if name == "-" and sys.stdin is None:
        raise DataError("standard input is closed")
    try:
        if name == "-":
            # Unbuffered: Python may not exit while a thread waits inside of its buffered stdin.
            return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
        if name.lower().endswith(".gz"):
            return gzip.open(name, "rb")  # type: ignore[return-value]
        return Path(name).open("rb", buffering=0)
    except OSError as error:
        raise DataError(f"{name}: {error.strerror or error}") from error


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """What the stream gives, at once when it is a pipe: a quiet source must not be waited for."""
    # read1 returns what is there; an unbuffered file's read does so too.
    read = getattr(stream, "read1", stream.read)
    while block := read(BLOCK_BYTES):
        yield block


def _read_parquet(name: str, options: SourceOptions) -> Iterator[RawBatch]:
    import pyarrow.parquet as parquet

    if name == "-":
        raise DataError("Parquet cannot be read from a pipe; give a file")
    try:
        file = parquet.ParquetFile(name)
    except FileNotFoundError as error:
        raise DataError(f"{name}: no such file") from error
    require_columns(name, file.schema_arrow.names, options.columns)
    for column in options.columns:
        kind = file.schema_arrow.field(column).type
        if pa.types.is_nested(kind):
            raise DataError(f"{name}: column '{column}' is {kind}; only plain values can be used")
    first, names = 0, tuple(file.schema_arrow.names)
    wanted = None if options.measure else list(options.columns)
    for batch in file.iter_batches(_PARQUET_ROWS, columns=wanted):
        columns = {column: _widened(batch.column(column)) for column in options.columns}
        rows = np.arange(first, first + batch.num_rows)
        length = csv_bytes(batch) if options.measure else 0
        yield RawBatch(rows, columns, names=names, csv_bytes=length)
        first += batch.num_rows


def _widened(column: pa.Array) -> pa.Array:
    """A float32 is the float64 it converts to, not the shorter text it prints."""
    return column.cast(pa.float64()) if pa.types.is_floating(column.type) else column
