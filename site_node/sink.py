"""Where published records go: CSV, JSON Lines or Parquet, to a file or a pipe.

A file is written under a temporary name and renamed when it is whole: a run that fails leaves
nothing that looks like a result.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.errors import DataError
from core.events import SUPPRESSED, Publish
from core.schema import CLASS_ID
from site_node.render import COMMA, NOTHING, Rendered, Renderer

_LINE_END: Final = pa.scalar("\n")
_QUOTE: Final = pa.scalar('"')
_BRACE: Final = pa.scalar("{")
_BRACE_END: Final = pa.scalar("}\n")
_NULL: Final = pa.scalar("null")
_CLASS_KEY: Final = pa.scalar(f',"{CLASS_ID}":')


class AtomicFile:
    """A file that appears under its name only when it is complete."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._path = Path(name)
        if self._path.is_dir():
            raise DataError(f"{name}: cannot be written: it is a folder")
        self._temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}.partial")
        # Whatever interrupts us, also before anybody can call discard: nothing is left behind.
        self._remove = weakref.finalize(self, self._temporary.unlink, missing_ok=True)
        try:
            self.stream: IO[bytes] = (
                gzip.open(self._temporary, "wb", 5)  # type: ignore[assignment]  # noqa: SIM115
                if name.lower().endswith(".gz")
                else self._temporary.open("wb")
            )
        except OSError as error:
            raise DataError(f"{name}: cannot be written: {error.strerror}") from error

    def commit(self) -> None:
        """Make the file durable and give it its name."""
        self.stream.close()
        with self._temporary.open("rb") as written:
            os.fsync(written.fileno())
        self._temporary.replace(self._path)
        self._remove.detach()

    def discard(self) -> None:
        """Leave nothing behind."""
        # What is buffered may not fit on the disk; it need not.
        with suppress(OSError):
            self.stream.close()
        self._remove()


class Pipe:
    """Standard output, a named pipe or a device, where nothing can be taken back."""

    def __init__(self, name: str) -> None:
        self.name = name
        if name == "-" and sys.stdout is None:
            raise DataError("standard output is closed")
        self.stream: IO[bytes] = (
            sys.stdout.buffer if name == "-" else Path(name).open("wb")  # noqa: SIM115
        )

    def commit(self) -> None:
        """Hand over what is buffered."""
        self.stream.flush()
        self.discard()

    def discard(self) -> None:
        """Nothing can be taken back from a pipe; standard output is not ours to close."""
        if self.name != "-":
            self.stream.close()


def open_target(name: str) -> AtomicFile | Pipe:
    """The file of this name, or standard output for `-`."""
    path = Path(name)
    # A device such as /dev/null must be written to, not replaced by a file.
    special = path.exists() and not path.is_file() and not path.is_dir()
    return Pipe(name) if name == "-" or special else AtomicFile(name)


class _Writer(Protocol):
    """One format: how rows become bytes."""

    def write(self, shown: Rendered, row: pa.Array, kept: dict[str, pa.Array]) -> None: ...

    def finish(self) -> None: ...


class Sink:
    """Writes published records; use it in a `with` block, which commits or discards."""

    def __init__(self, name: str, form: str, renderer: Renderer) -> None:
        self._renderer = renderer
        self._target = open_target(name)
        writers: dict[str, type[_CsvWriter | _JsonWriter | _ParquetWriter]]
        writers = {"csv": _CsvWriter, "jsonl": _JsonWriter, "parquet": _ParquetWriter}
        self._writer: _Writer = writers[form](self._target.stream, renderer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._target.discard()
            return
        try:
            self._writer.finish()
            self._target.commit()
        except BaseException:
            self._target.discard()
            raise

    def write(self, effect: Publish, kept: dict[str, pa.Array]) -> pa.Array:
        """Write the records of one effect; `kept` are their columns that stay as they came.

        Returns the class id of every record, null for a suppressed one.
        """
        shown = self._renderer.render(effect.classes)
        row = pa.array(np.where(effect.row == SUPPRESSED, len(effect.classes), effect.row))
        self._writer.write(shown, row, kept)
        return shown.class_id.take(row)

    def flush(self) -> None:
        """Let a reader at the other end of a pipe see what was published."""
        self._target.stream.flush()


class _CsvWriter:
    """Rows as bytes, the generalised columns of a class put together once per class."""

    def __init__(self, stream: IO[bytes], renderer: Renderer) -> None:
        self._stream = stream
        header = pa.array(renderer.names, pa.string())
        stream.write((",".join(quoted(header).to_pylist()) + "\n").encode())

    def write(self, shown: Rendered, row: pa.Array, kept: dict[str, pa.Array]) -> None:
        front = pc.binary_join_element_wise(*(quoted(c) for c in shown.columns.values()), COMMA)
        class_id = pc.cast(shown.class_id, pa.string()).fill_null(NOTHING)
        back = pc.binary_join_element_wise(COMMA, class_id, _LINE_END, NOTHING)
        middle = [quoted(_as_text(column)) for column in kept.values()]
        fields: list[Any] = [front.take(row)]
        for column in middle:
            fields += [COMMA, column]
        lines = pc.binary_join_element_wise(*fields, back.take(row), NOTHING)
        self._stream.write(content(lines))

    def finish(self) -> None:
        """Every line is written already."""


class _JsonWriter:
    """One object a line; intervals are text, as in CSV."""

    def __init__(self, stream: IO[bytes], renderer: Renderer) -> None:
        self._stream = stream

    def write(self, shown: Rendered, row: pa.Array, kept: dict[str, pa.Array]) -> None:
        members = [_members(name, column) for name, column in shown.columns.items()]
        front = pc.binary_join_element_wise(
            _BRACE, pc.binary_join_element_wise(*members, COMMA), NOTHING
        )
        class_id = pc.cast(shown.class_id, pa.string()).fill_null(_NULL)
        back = pc.binary_join_element_wise(_CLASS_KEY, class_id, _BRACE_END, NOTHING)
        fields: list[Any] = [front.take(row)]
        for name, column in kept.items():
            fields += [COMMA, _members(name, column)]
        lines = pc.binary_join_element_wise(*fields, back.take(row), NOTHING)
        self._stream.write(content(lines))

    def finish(self) -> None:
        """Every line is written already."""


class _ParquetWriter:
    """Row groups of published records."""

    _GROUP_ROWS = 65_536

    def __init__(self, stream: IO[bytes], renderer: Renderer) -> None:
        self._stream = stream
        self._names = renderer.names
        self._empty = [(name, pa.string()) for name in renderer.names[:-1]]
        self._writer: Any = None
        self._held: list[pa.Table] = []
        self._rows = 0

    def write(self, shown: Rendered, row: pa.Array, kept: dict[str, pa.Array]) -> None:
        columns = [column.take(row) for column in shown.columns.values()]
        columns += [_as_text(column) for column in kept.values()]
        self._held.append(pa.table([*columns, shown.class_id.take(row)], names=self._names))
        self._rows += len(row)
        if self._rows >= self._GROUP_ROWS:
            self._write_group()

    def finish(self) -> None:
        if self._held or self._writer is None:
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        import pyarrow.parquet as parquet

        schema = pa.schema([*self._empty, (CLASS_ID, pa.int64())])
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._stream, schema)
        table = pa.concat_tables(self._held) if self._held else schema.empty_table()
        self._writer.write_table(table.cast(schema))
        self._held, self._rows = [], 0


def _as_text(column: pa.Array) -> pa.Array:
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def quoted(texts: pa.Array) -> pa.Array:
    """CSV fields: quoted where they hold a delimiter, a quote or a line end; null is empty."""
    texts = texts.fill_null(NOTHING)
    special = pc.match_substring_regex(texts, '[",\r\n]')
    if not pc.any(special).as_py():
        return texts
    doubled = pc.replace_substring(texts, '"', '""')
    return pc.if_else(special, pc.binary_join_element_wise(_QUOTE, doubled, _QUOTE, NOTHING), texts)


def _members(name: str, column: pa.Array) -> pa.Array:
    """`"name":value` of every row, each distinct value escaped once."""
    encoded = column.dictionary_encode()
    key = json.dumps(name, ensure_ascii=False)
    distinct = [
        f"{key}:{json.dumps(value, ensure_ascii=False)}" for value in encoded.dictionary.to_pylist()
    ]
    place = encoded.indices.fill_null(len(distinct))
    return pa.array([*distinct, f"{key}:null"], pa.string()).take(place)


def content(lines: pa.Array) -> memoryview:
    """The bytes of all lines, one after the other, as they lie in memory."""
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(data)[int(ends[0]) : int(ends[-1])]
