"""CSV, block by block: quoted fields, rows of the wrong length, bytes that are no text."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
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
_WHOLE_QUOTE: Final = re.compile(rb'"[^"]*+(?:""[^"]*+)*+"')


def read_csv(name: str, blocks: Iterator[bytes], options: SourceOptions) -> Iterator[RawBatch]:
    """Yield the rows of a CSV with a header; rows are counted from 0 after it."""
    parser: _Parser | None = None
    quotes = _quotes(options.delimiter or _DELIMITERS)
    rest = b""
    for block in blocks:
        rest += block
        if parser is None:
            rest = rest.removeprefix(_BOM).lstrip(b"\r\n")
            end = _first_record_end(rest, quotes)
            if end == 0 and len(rest) < _RECORD_BYTES_MAX:
                continue
            parser = _Parser(name, rest[:end] or rest, options)
            quotes = _quotes(parser.delimiter)
            rest = rest[end:]
        whole = _last_record_end(rest, parser.delimiter, quotes)
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
    if _is_open(rest, quotes):
        yield parser.give_up(rest)
    else:
        yield from parser.parse(rest)


def _quotes(delimiters: str) -> re.Pattern[bytes]:
    """Quoted fields. Like arrow, take a quote inside of a field that began without one as text."""
    start = re.escape(delimiters.encode()) + rb"\r\n"
    # The last one may lack its end.
    return re.compile(rb'((?<![^%s])"[^"]*+(?:""[^"]*+)*+"?)' % start)


def _first_record_end(data: bytes, quotes: re.Pattern[bytes]) -> int:
    """Where the first record ends, outside of quotes; 0 when it does not end in `data`."""
    at = 0
    for place, piece in enumerate(quotes.split(data)):
        end = piece.find(b"\n") if place % 2 == 0 else -1
        if end >= 0:
            return at + end + 1
        at += len(piece)
    return 0


def _last_record_end(data: bytes, delimiter: str, quotes: re.Pattern[bytes]) -> int:
    """Where the last whole record ends; 0 when there is none."""
    end = data.rfind(b"\n") + 1
    if b'"' not in data:
        return end
    byte = np.frombuffer(data, np.uint8)
    quote = np.flatnonzero(byte == ord('"'))
    if not np.isin(
        byte[np.maximum(quote[::2] - 1, 0)], [ord(c) for c in f'{delimiter}\r\n"']
    ).all():
        return _last_record_end_slow(data, quotes)
    # Every other quote begins a field or is the second of a pair: it is enough to count them.
    while end and (before := int(np.searchsorted(quote, end))) % 2:
        end = data.rfind(b"\n", 0, int(quote[before - 1])) + 1
    return end


def _last_record_end_slow(data: bytes, quotes: re.Pattern[bytes]) -> int:
    """Where the last whole record ends, also when there are quotes inside of unquoted fields."""
    pieces = quotes.split(data)  # outside of quotes, inside, outside, ...
    at = len(data)
    for place in range(len(pieces) - 1, -1, -1):
        at -= len(pieces[place])
        end = pieces[place].rfind(b"\n") if place % 2 == 0 else -1
        if end >= 0:
            return at + end + 1
    return 0


def _is_open(data: bytes, quotes: re.Pattern[bytes]) -> bool:
    """Tell whether `data` ends inside of quotes."""
    pieces = quotes.split(data)
    return len(pieces) > 1 and not pieces[-1] and not _WHOLE_QUOTE.fullmatch(pieces[-2])


class _Parser:
    """Parses whole records under one header."""

    def __init__(self, name: str, header: bytes, options: SourceOptions) -> None:
        self.row = 0
        self._options = options
        try:
            text = header.removeprefix(_BOM).decode().rstrip("\r\n")
            self.delimiter = options.delimiter or _sniff(text, options.columns)
            self._names = next(csv.reader([text], delimiter=self.delimiter), [])
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: the header is not valid UTF-8") from error
        except csv.Error as error:
            reason = "is a quote not closed, or do lines end in CR alone?"
            raise DataError(f"{name}: the header cannot be read: {reason}") from error
        require_columns(name, self._names, options.columns)

    def parse(self, data: bytes) -> Iterator[RawBatch]:
        """Yield the records in `data`, which ends with a record."""
        if not data.strip(b"\r\n"):
            return
        invalid: list[tuple[int, str, str]] = []

        def note(row: pyarrow.csv.InvalidRow) -> str:
            reason = f"{row.actual_columns} fields instead of {row.expected_columns}"
            invalid.append((row.number - 1, reason, row.text))
            return "skip"

        if data.isascii() or _is_utf8(data):
            try:
                table = self._convert(data, note, careful=False)
            except pa.ArrowInvalid:
                # A number that is none somewhere in here: take the values as they are, the encoder
                # will find the rows.
                invalid.clear()
                table = self._convert(data, note, careful=True)
        else:
            # Arrow wants text, also to tell us of a row that it cannot use. As Latin-1 all is text.
            table = self._convert(data.decode("latin-1").encode(), note, careful=True)
            table = pa.table({name: _bytes(table.column(name)) for name in table.column_names})
            invalid = [(at, reason, _shown(text)) for at, reason, text in invalid]
        broken = [
            BrokenRow(self.row + at, "wrong number of fields", reason, text)
            for at, reason, text in invalid
        ]
        total = table.num_rows + len(broken)
        rows = np.delete(np.arange(self.row, self.row + total), [at for at, _, _ in invalid])
        columns = {name: table.column(name).combine_chunks() for name in self._options.columns}
        self.row += total
        yield RawBatch(rows, columns, broken, names=tuple(self._names), csv_bytes=len(data))

    def give_up(self, data: bytes) -> RawBatch:
        """Make one broken row of the end of the input, where a quote is open."""
        kind = "a quote that is not closed"
        reason = f"{kind}, in {len(data.splitlines()):,} lines up to the end"
        broken = BrokenRow(self.row, kind, reason, data.decode(errors="backslashreplace"))
        columns = {name: pa.array([], pa.string()) for name in self._options.columns}
        self.row += 1
        names = tuple(self._names)
        return RawBatch(np.zeros(0, np.int64), columns, [broken], names, csv_bytes=len(data))

    def _convert(
        self, data: bytes, note: Callable[[pyarrow.csv.InvalidRow], str], *, careful: bool
    ) -> pa.Table:
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
                delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=note
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=kinds,
                include_columns=list(options.columns),
                null_values=list(options.missing),
                strings_can_be_null=False,
            ),
        )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bytes(column: pa.ChunkedArray) -> pa.Array:
    """The bytes that were taken for Latin-1."""
    values = (value.decode().encode("latin-1") for value in column.to_pylist())
    return pa.array(values, pa.binary())


def _shown(text: str) -> str:
    return text.encode("latin-1").decode(errors="backslashreplace")


def _sniff(header: str, needed: tuple[str, ...]) -> str:
    """The delimiter under which the header has most of the columns that are needed."""

    def score(delimiter: str) -> int:
        names = next(csv.reader([header], delimiter=delimiter), [])
        return len(set(names) & set(needed))

    return max(_DELIMITERS, key=score)
