"""Writes a data set as CSV, JSON lines or Parquet, so that people can play with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from core.errors import ConfigurationError, Fault

Batches = Iterator[pa.RecordBatch]

STDOUT: Final = "-"


def write(batches: Batches, output: str) -> int:
    """Write the batches in the format of the name's ending ('-': CSV to stdout); returns the rows.

    The file appears when it is complete.
    """
    if output == STDOUT:
        return _write_csv(batches, pa.PythonFile(sys.stdout.buffer, mode="w"))
    path = Path(output)
    writer = _writer(path)
    compression = "gzip" if path.suffix == ".gz" else None
    part = path.with_name(f".{path.name}.part")
    try:
        with pa.output_stream(part, compression=compression) as sink:
            rows = writer(batches, sink)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return rows


def _writer(path: Path) -> Callable[[Batches, Any], int]:
    ending = Path(path.name.removesuffix(".gz")).suffix
    writer = _WRITERS.get(ending)
    if writer is None or path.name.endswith(".parquet.gz"):
        known = ".csv, .jsonl (both also .gz) and .parquet"
        message = f"{path}: cannot tell the format; known endings are {known}"
        raise ConfigurationError([Fault(message=message)])
    return writer


def _write_csv(batches: Batches, sink: Any) -> int:
    first = next(batches)
    with pyarrow.csv.CSVWriter(sink, first.schema) as out:
        return _drain(first, batches, out.write)


def _write_parquet(batches: Batches, sink: Any) -> int:
    first = next(batches)
    with pyarrow.parquet.ParquetWriter(sink, first.schema) as out:
        return _drain(first, batches, out.write)


def _write_json_lines(batches: Batches, sink: Any) -> int:
    def put(batch: pa.RecordBatch) -> None:
        lines = (json.dumps(row, default=str, ensure_ascii=False) for row in batch.to_pylist())
        sink.write("".join(f"{line}\n" for line in lines).encode())

    return _drain(next(batches), batches, put)


def _drain(first: pa.RecordBatch, rest: Batches, put: Callable[[pa.RecordBatch], object]) -> int:
    put(first)
    rows = int(first.num_rows)
    for batch in rest:
        put(batch)
        rows += batch.num_rows
    return rows


_WRITERS: Final = {
    ".csv": _write_csv,
    ".jsonl": _write_json_lines,
    ".ndjson": _write_json_lines,
    ".parquet": _write_parquet,
}
