"""Reading: every row of the input arrives once, under its number, or is said to be broken."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from core.errors import DataError
from site_node import csv_source, source
from site_node.batch import BrokenRow, SourceOptions
from site_node.source import format_of, read_batches

OPTIONS = SourceOptions(
    columns=("age", "job", "note"),
    numeric=frozenset({"age"}),
    categorical=frozenset({"job"}),
    missing=("", "?"),
    delimiter=None,
)

Rows = dict[int, tuple[Any, ...]]
Write = Callable[[str, bytes], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def save(name: str, content: bytes) -> str:
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name)

    return save


def read(name: str, options: SourceOptions = OPTIONS, form: str | None = None) -> Rows:
    return read_all(name, options, form)[0]


def read_all(
    name: str, options: SourceOptions = OPTIONS, form: str | None = None
) -> tuple[Rows, list[BrokenRow]]:
    """All rows by number, text where the reader gives bytes; and the broken ones."""
    rows: Rows = {}
    broken = []
    for batch in read_batches(name, options, form):
        columns = [batch.columns[column].to_pylist() for column in options.columns]
        for row, *values in zip(batch.row.tolist(), *columns, strict=True):
            assert row not in rows
            rows[row] = tuple(v.decode() if isinstance(v, bytes) else v for v in values)
        broken += batch.broken
    assert sorted([*rows, *(each.row for each in broken)]) == list(range(len(rows) + len(broken)))
    return rows, broken


def test_a_csv_gives_numbers_and_texts_under_row_numbers_from_0(write: Write) -> None:
    name = write("a.csv", b"note,job,age\nx,cook,20\ny,nurse,30.5\n")
    assert read(name) == {0: (20.0, "cook", "x"), 1: (30.5, "nurse", "y")}


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_a_byte_order_mark_and_a_missing_last_line_end_make_no_difference(
    write: Write, end: bytes, bom: bytes, last: bool
) -> None:
    lines = [b"age,job,note", b"20,cook,x", b"30,nurse,y"]
    name = write("a.csv", bom + end.join(lines) + (end if last else b""))
    assert read(name) == {0: (20.0, "cook", "x"), 1: (30.0, "nurse", "y")}


def test_blank_lines_are_no_rows(write: Write) -> None:
    name = write("a.csv", b"\n\nage,job,note\n\n20,cook,x\n\r\n\n30,nurse,y\n\n")
    assert sorted(read(name)) == [0, 1]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_in_the_header(write: Write, delimiter: str) -> None:
    text = "age,job,note\n20,cook,x\n".replace(",", delimiter)
    assert read(write("a.csv", text.encode())) == {0: (20.0, "cook", "x")}


def test_a_delimiter_that_is_given_is_used(write: Write) -> None:
    options = SourceOptions(
        columns=("age",),
        numeric=frozenset({"age"}),
        categorical=frozenset(),
        missing=(),
        delimiter="^",
    )
    assert read(write("a.csv", b"age^x,y\n20^a,b\n"), options) == {0: (20.0,)}


@pytest.mark.parametrize("block_bytes", [1, 2, 7, 64, 1_000_000])
def test_records_are_whole_wherever_the_blocks_end(
    write: Write, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    notes = ['two\nlines, "quoted"', "", 'a"b', "\n\n", '"', "é", "end\r\n", ",", 'x\n"y"\n']
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(
        [["age", "job", "note"], *([str(n), "cook", note] for n, note in enumerate(notes))]
    )
    name = write("a.csv", text.getvalue().encode())
    monkeypatch.setattr(source, "BLOCK_BYTES", block_bytes)
    assert read(name) == {n: (float(n), "cook", note) for n, note in enumerate(notes)}


@pytest.mark.parametrize("block_bytes", [1, 9, 1_000_000])
def test_a_quote_inside_of_an_unquoted_field_is_text(
    write: Write, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    name = write("a.csv", b'age,job,note\n1,cook,5" nail\n2,cook,"a\nb"\n3,cook,"c"d"\n4,cook,e\n')
    monkeypatch.setattr(source, "BLOCK_BYTES", block_bytes)
    notes = [note for _, _, note in read(name).values()]
    assert notes == ['5" nail', "a\nb", 'cd"', "e"]


@pytest.mark.parametrize("block_bytes", [16, 1_000_000])
def test_a_row_of_the_wrong_length_is_broken_and_keeps_its_number(
    write: Write, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    lines = b"age,job,note\n\n1,2\n1,cook,x\n\n1,2,3,4\n2,cook,y\nz\n3,cook,z\n"
    monkeypatch.setattr(source, "BLOCK_BYTES", block_bytes)
    rows, broken = read_all(write("a.csv", lines))
    assert rows == {1: (1.0, "cook", "x"), 3: (2.0, "cook", "y"), 5: (3.0, "cook", "z")}
    assert [(each.row, each.reason, each.text) for each in broken] == [
        (0, "2 fields instead of 3", "1,2"),
        (2, "4 fields instead of 3", "1,2,3,4"),
        (4, "1 fields instead of 3", "z"),
    ]


def test_a_row_of_the_wrong_length_that_is_no_text_is_broken_and_shown_escaped(
    write: Write, capfd: pytest.CaptureFixture[str]
) -> None:
    rows, broken = read_all(write("a.csv", b"age,job,note\n1,cook,x\n\xff,2\n2,cook,\xc3\xa9\n"))
    assert rows == {0: ("1", "cook", "x"), 2: ("2", "cook", "é")}
    assert [each.text for each in broken] == ["\\xff,2"]
    assert capfd.readouterr().err == ""


def test_bytes_that_are_no_text_arrive_as_they_are(write: Write) -> None:
    name = write("a.csv", b'age,job,note\n1,cook,"a\xff,\n"\n2,cook,\xc3\xa9\n')
    (batch,) = read_batches(name, OPTIONS)
    assert batch.columns["note"].to_pylist() == [b"a\xff,\n", "é".encode()]


def test_a_number_that_is_none_arrives_as_text(write: Write) -> None:
    assert read(write("a.csv", b"age,job,note\n1,cook,x\nold,cook,y\n"))[1] == ("old", "cook", "y")


def test_a_missing_number_is_null(write: Write) -> None:
    rows = read(write("a.csv", b"age,job,note\n?,cook,x\n,cook,?\n"))
    assert rows == {0: (None, "cook", "x"), 1: (None, "cook", "?")}


def test_a_quote_that_is_not_closed_breaks_the_row_and_nothing_is_lost(write: Write) -> None:
    rows, broken = read_all(write("a.csv", b'age,job,note\n1,cook,x\n2,cook,"y\n3,cook,z\n'))
    assert rows == {0: (1.0, "cook", "x")}
    assert [(each.row, each.kind, each.text) for each in broken] == [
        (1, "a quote that is not closed", '2,cook,"y\n3,cook,z\n')
    ]


def test_an_open_quote_is_given_up_when_it_has_swallowed_too_much(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_source, "_RECORD_BYTES_MAX", 1_000)
    monkeypatch.setattr(source, "BLOCK_BYTES", 100)
    name = write("a.csv", b'age,job,note\n1,cook,x\n2,cook,"y\n' + b"3,cook,z\n" * 1_000)
    with pytest.raises(DataError, match=r"row 1: no end of the record.*quote not closed"):
        read(name)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "empty, not even a header"),
        (b"\n\r\n", "empty, not even a header"),
        (b"age,job\n1,cook\n", "no column 'note'; it has 'age', 'job'"),
        (b"age,note\n", "no column 'job'"),
        (b"age,job,note,age\n1,2,3,4\n", "more than one column 'age'"),
        (b"age,job,note\xff\n1,2,3\n", "header is not valid UTF-8"),
        (b'age,"job,note\n1,2,3\n', "header cannot be read"),
        (b"age,job,note\r1,2,3\r", "header cannot be read.*CR"),
        ("age,job,note\n1,2,3\n".encode("utf-16"), "header is not valid UTF-8"),
    ],
)
def test_a_csv_without_a_usable_header_is_refused(
    write: Write, content: bytes, complaint: str
) -> None:
    with pytest.raises(DataError, match=complaint):
        read(write("a.csv", content))


@pytest.mark.parametrize("content", [b"age,job,note", b"age,job,note\n", b"age,job,note\n\n\n"])
def test_a_header_alone_has_no_rows(write: Write, content: bytes) -> None:
    assert read_all(write("a.csv", content)) == ({}, [])


def test_a_column_that_is_not_needed_may_be_there_twice_and_is_told_of(write: Write) -> None:
    (batch,) = read_batches(write("a.csv", b"x,age,job,note,x\n9,1,cook,n,8\n"), OPTIONS)
    assert batch.names == ("x", "age", "job", "note", "x")
    assert set(batch.columns) == set(OPTIONS.columns)


def test_jsonl_values_arrive_as_they_are_written(write: Write) -> None:
    lines = [
        '{"age": 20, "job": "cook", "note": 1.10}',
        '{"note": true, "age": "20.0", "job": null}',
        '{"age": 1e2, "job": "c\\u00f6ok", "note": {"b": [1, 2], "a": null}}',
        '{"age": NaN, "note": 12345678901234567890}',
    ]
    assert read(write("a.jsonl", "\n".join(lines).encode())) == {
        0: ("20", "cook", "1.10"),
        1: ("20.0", None, "true"),
        2: ("1e2", "cöok", '{"b": ["1", "2"], "a": null}'),
        3: ("NaN", None, "12345678901234567890"),
    }


@pytest.mark.parametrize("block_bytes", [1, 20, 1_000_000])
def test_broken_jsonl_lines_keep_their_numbers_and_empty_lines_have_none(
    write: Write, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    good = b'{"age":1,"job":"cook","note":"x"}'
    twice = b'{"age":1,"age":2}'
    deep, separator = b"[" * 100_000, "\u2028".encode()
    lines = [good, b"", b"{bad", b"  ", b"[1]", good, b"\xff", twice, separator + good, b"{}", deep]
    if block_bytes == 1:
        lines.pop()  # a byte at a time takes long
    monkeypatch.setattr(source, "BLOCK_BYTES", block_bytes)
    rows, broken = read_all(write("a.jsonl", b"\xef\xbb\xbf" + b"\r\n".join(lines) + b"\n"))
    assert rows == {0: ("1", "cook", "x"), 3: ("1", "cook", "x"), 7: (None, None, None)}
    assert [each.row for each in broken] == [1, 2, 4, 5, 6, 8][: 5 if block_bytes == 1 else 6]
    assert {each.kind for each in broken} == {"not a JSON object"}
    assert broken[0].text.strip() == "{bad"


def test_half_of_a_surrogate_pair_arrives_as_bytes_that_are_no_text(write: Write) -> None:
    (batch,) = read_batches(write("a.jsonl", b'{"note": "\\ud800"}\n'), OPTIONS)
    assert batch.columns["note"].to_pylist() == [b"\xed\xa0\x80"]


def test_jsonl_tells_of_every_name_in_it(write: Write) -> None:
    (batch,) = read_batches(write("a.jsonl", b'{"x":1,"age":1}\n{"y":1}\n'), OPTIONS)
    assert batch.names == ("x", "age", "y")


def parquet(write: Write, **columns: pa.Array) -> str:
    content = io.BytesIO()
    good = {"age": pa.array([20]), "job": pa.array(["cook"]), "note": pa.array(["x"])}
    pa.parquet.write_table(pa.table(good | columns), content)
    return write("a.parquet", content.getvalue())


def test_a_parquet_file_keeps_its_types(write: Write) -> None:
    age, note = pa.array([Decimal("1.5")]), pa.array([7], pa.int16())
    name = parquet(write, age=age, note=note, other=pa.array([[1]]))
    assert read(name) == {0: (Decimal("1.5"), "cook", 7)}
    assert next(read_batches(name, OPTIONS)).names == ("age", "job", "note", "other")


def test_a_float32_of_a_parquet_file_is_the_float64_that_equals_it(write: Write) -> None:
    (row,) = read(parquet(write, note=pa.array([0.1], pa.float32()))).values()
    assert row[2] == 0.10000000149011612


def test_rows_of_a_parquet_file_are_numbered_over_its_batches(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_PARQUET_ROWS", 3)
    many = pa.array([str(n) for n in range(10)])
    rows = read(parquet(write, age=pa.array(range(10)), job=many, note=many))
    assert rows == {n: (n, str(n), str(n)) for n in range(10)}


@pytest.mark.parametrize("column", [pa.array([[1]]), pa.array([{"a": 1}])], ids=["list", "struct"])
def test_a_nested_parquet_column_is_refused_by_name(write: Write, column: pa.Array) -> None:
    with pytest.raises(DataError, match=r"column 'note' is (list|struct)<.*plain"):
        read(parquet(write, note=column))


@pytest.mark.parametrize("content", [b"", b"PAR1 no", b"PAR1" * 10])
def test_what_is_no_parquet_file_is_refused(write: Write, content: bytes) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read(write("a.parquet", content))


@pytest.mark.parametrize("name", ["a.csv.gz", "a.CSV.GZ"])
def test_gzip_is_told_by_the_suffix(write: Write, name: str) -> None:
    content = gzip.compress(b"age,job,note\n20,cook,x\n")
    assert read(write(name, content)) == {0: (20.0, "cook", "x")}


@pytest.mark.parametrize("spoil", [lambda c: c[:-20], lambda c: c + b"x", lambda c: c[5:]])
def test_a_spoilt_gzip_file_is_an_error_after_the_rows_before_it(
    write: Write, spoil: Callable[[bytes], bytes]
) -> None:
    lines = json.dumps({"age": 20, "job": "cook", "note": "x"}).encode() + b"\n"
    with pytest.raises(DataError, match=r"a\.jsonl\.gz: cannot be read"):
        read(write("a.jsonl.gz", spoil(gzip.compress(lines * 1_000))))


def test_a_file_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    for suffix in ("csv", "jsonl", "csv.gz", "parquet"):
        with pytest.raises(DataError, match=rf"nothing\.{suffix}: [Nn]o such file"):
            read(str(tmp_path / f"nothing.{suffix}"))


def test_parquet_is_not_read_from_a_pipe() -> None:
    with pytest.raises(DataError, match="pipe"):
        read("-", form="parquet")


def test_the_format_is_told_by_the_name() -> None:
    names = ["a", "a.csv", "a.txt.gz", "a.jsonl", "a.NDJSON", "a.jsonl.gz", "a.parquet", "-"]
    formats = ["csv", "csv", "csv", "jsonl", "jsonl", "jsonl", "parquet", "csv"]
    assert [format_of(name) for name in names] == formats
