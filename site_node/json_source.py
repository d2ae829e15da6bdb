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
# Every line may have names of its own: so many of them are told of.
NAMES_MAX: Final = 1_000
_KIND: Final = "not a JSON object"


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
    length = 0
    broken: list[BrokenRow] = []
    names: dict[str, None] = {}
    values: dict[str, list[bytes | None]] = {name: [] for name in options.columns}
    lines = (line for line in data.split(b"\n") if line.strip())
    for row, line in enumerate(lines, first):
        try:
            record = _JSON.decode(line.decode("utf-8-sig"))
            if not isinstance(record, dict):
                raise ValueError("something else than an object")
            texts = [_text(record.get(name)) for name in values]
        except (ValueError, RecursionError) as error:
            text = line.decode(errors="backslashreplace")
            broken.append(BrokenRow(row, _KIND, f"{_KIND}: {error}", text))
            continue
        rows.append(row)
        if len(names) < NAMES_MAX:
            names.update(dict.fromkeys(record))
        for column, value in zip(values.values(), texts, strict=True):
            column.append(value)
        if options.measure:
            length += sum(map(_csv_bytes, record.values()))
    columns = {name: pa.array(column, pa.binary()) for name, column in values.items()}
    return RawBatch(np.array(rows, np.int64), columns, broken, tuple(names), csv_bytes=length)


def _text(value: Any) -> bytes | None:
    """A JSON value as the text a CSV would have; a number is the text that is written."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    # A lone surrogate is legal in JSON and no text: the encoder will say so.
    return text.encode(errors="surrogatepass")


def _csv_bytes(value: Any) -> int:
    """How long the value is as a field of a CSV, with the comma or the line end behind it.

    Numbers are text to our decoder: all texts are taken to be quoted only where it must be.
    """
    text = _text(value) or b""
    special = any(mark in text for mark in (b'"', b",", b"\n", b"\r"))
    return len(text) + 1 + (2 + text.count(b'"') if special else 0)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a name occurs twice")
    return record


_JSON: Final = json.JSONDecoder(
    parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_unique
)
