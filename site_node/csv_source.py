"""CSV, block by block: quoted fields, rows of the wrong length, bytes that are no text."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv

from core.errors import DataError
from site_node.batch import BrokenRow, RawBatch, SourceOptions, require_columns

_DELIMITERS: Final = ",;\t|"
# A quote that is never closed makes the rest of the input one field: give up before it is all here.
_RECORD_BYTES_MAX: Final = 64 * 1024 * 1024
# Few distinct values: the thread that reads finds them, not the one that anonymises.
_LEAVES: Final = pa.dictionary(pa.int32(), pa.string())
_BOM: Final = b"\xef\xbb\xbf"


def read_csv(name: str, blocks: Iterator[bytes], options: SourceOptions) -> Iterator[RawBatch]:
    """Yield the rows of a CSV with a header; rows are counted from 0 after it."""
    parser: _Parser | None = None
    rest = b""
    for block in blocks:
        rest += block
        if parser is None:
            end = _record_end(rest)
            if end == 0 and len(rest) < _RECORD_BYTES_MAX:
                continue
            parser = _Parser(name, rest[:end] or rest, options)
            rest = rest[end:]
        whole = _last_record_end(rest)
        if whole:
            yield from parser.parse(rest[:whole])
            rest = rest[whole:]
        elif len(rest) > _RECORD_BYTES_MAX:
            raise DataError(
                f"{name}: row {parser.row}: no end of the record within "
                f"{_RECORD_BYTES_MAX >> 20} MiB; is a quote not closed?"
            )
    if parser is None:
        if not rest.strip():
            raise DataError(f"{name}: empty, not even a header")
        parser, rest = _Parser(name, rest, options), b""
    if rest:
        yield from parser.parse(rest)


def _record_end(data: bytes) -> int:
    """Where the first record ends, outside of quotes; 0 when it does not end in `data`."""
    end = data.find(b"\n") + 1
    while end and data.count(b'"', 0, end) % 2:
        end = data.find(b"\n", end) + 1
    return end


def _last_record_end(data: bytes) -> int:
    """Where the last whole record ends; 0 when there is none."""
    end = data.rfind(b"\n") + 1
    if b'"' not in data:
        return end
    while end and data.count(b'"', 0, end) % 2:
        end = data.rfind(b"\n", 0, end - 1) + 1
    return end


class _Parser:
    """Parses whole records under one header."""

    def __init__(self, name: str, header: bytes, options: SourceOptions) -> None:
        self.row = 0
        self._options = options
        try:
            text = header.removeprefix(_BOM).decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: the header is not valid UTF-8") from error
        self._delimiter = options.delimiter or _sniff(text, options.columns)
        self._names = next(csv.reader([text.rstrip("\r\n")], delimiter=self._delimiter), [])
        require_columns(name, self._names, options.columns)

    def parse(self, data: bytes) -> Iterator[RawBatch]:
        """Yield the records in `data`, which ends with a record."""
        invalid: list[tuple[int, str, str]] = []

        def note(row: pyarrow.csv.InvalidRow) -> str:
            reason = f"{row.actual_columns} fields instead of {row.expected_columns}"
            invalid.append((row.number - 1, reason, row.text))
            return "skip"

        try:
            table = self._convert(data, note, careful=False)
        except pa.ArrowInvalid:
            # A number that is none, or bytes that are no text, somewhere in here: take the values
            # as they are, the encoder will find the rows.
            invalid.clear()
            table = self._convert(data, note, careful=True)
        broken = [BrokenRow(self.row + at, reason, text) for at, reason, text in invalid]
        total = table.num_rows + len(broken)
        rows = np.delete(np.arange(self.row, self.row + total), [at for at, _, _ in invalid])
        columns = {name: table.column(name).combine_chunks() for name in self._options.columns}
        self.row += total
        yield RawBatch(rows, columns, broken)

    def _convert(self, data: bytes, note: object, *, careful: bool) -> pa.Table:
        options = self._options
        kinds = {
            name: pa.binary()
            if careful
            else pa.float64()
            if name in options.numeric
            else _LEAVES
            if name in options.categorical
            else pa.string()
            for name in options.columns
        }
        return pyarrow.csv.read_csv(
            pa.BufferReader(data),
            # One block and one thread: only then is the number of an invalid row known.
            read_options=pyarrow.csv.ReadOptions(
                column_names=self._names, use_threads=False, block_size=max(1, len(data))
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=note
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=kinds,
                include_columns=list(options.columns),
                null_values=list(options.missing),
                strings_can_be_null=False,
            ),
        )


def _sniff(header: str, needed: tuple[str, ...]) -> str:
    """The delimiter under which the header has most of the columns that are needed."""

    def score(delimiter: str) -> int:
        names = next(csv.reader([header.rstrip("\r\n")], delimiter=delimiter), [])
        return len(set(names) & set(needed))

    return max(_DELIMITERS, key=score)
