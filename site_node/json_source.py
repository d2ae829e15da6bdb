"""JSON Lines: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from core.errors import DataError
from site_node.batch import BrokenRow, RawBatch, SourceOptions

_LINE_BYTES_MAX: Final = 64 * 1024 * 1024


def read_json(name: str, blocks: Iterator[bytes], options: SourceOptions) -> Iterator[RawBatch]:
    """Yield the rows of a JSON Lines file; empty lines are no rows."""
    first, rest = 0, b""
    for block in blocks:
        rest += block
        end = rest.rfind(b"\n") + 1
        if end:
            batch = _parse(rest[:end], first, options)
            first += len(batch.row) + len(batch.broken)
            rest = rest[end:]
            yield batch
        elif len(rest) > _LINE_BYTES_MAX:
            raise DataError(f"{name}: row {first}: a line of over {_LINE_BYTES_MAX >> 20} MiB")
    if rest.strip():
        yield _parse(rest, first, options)


def _parse(data: bytes, first: int, options: SourceOptions) -> RawBatch:
    rows: list[int] = []
    broken: list[BrokenRow] = []
    values: dict[str, list[bytes | None]] = {name: [] for name in options.columns}
    lines = (line for line in data.split(b"\n") if line.strip())
    for row, line in enumerate(lines, first):
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError(f"a {type(record).__name__} instead of an object")
        except (ValueError, RecursionError) as error:
            text = line.decode(errors="backslashreplace")
            broken.append(BrokenRow(row, f"not a JSON object: {error}", text))
            continue
        rows.append(row)
        for name, column in values.items():
            column.append(_text(record.get(name)))
    columns = {name: pa.array(column, pa.binary()) for name, column in values.items()}
    return RawBatch(np.array(rows, np.int64), columns, broken)


def _text(value: Any) -> bytes | None:
    """A JSON value as the text a CSV would have; numbers and strings alike."""
    if value is None or isinstance(value, str):
        # A lone surrogate is legal in JSON and no text: the encoder will say so.
        return None if value is None else value.encode(errors="surrogatepass")
    if isinstance(value, bool | int | float):
        return json.dumps(value).encode()
    return json.dumps(value, sort_keys=True).encode()
