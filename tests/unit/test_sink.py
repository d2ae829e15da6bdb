"""Writing: what is published can be read again as it was, and a failure leaves nothing behind."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from core.errors import DataError
from core.events import SUPPRESSED, Classes, Publish
from core.hierarchy import flat
from core.schema import Attribute, Kind, Role, Schema
from site_node.render import Renderer
from site_node.sink import Sink
from site_node.source import format_of
from site_node.trace import DeadLetters, Trace

# Leaves, an insensitive column name and payloads that every format has to escape.
LEAVES = ['a "quoted" job', "two\nlines", "comma, here", "plain"]
NOTES = ['say "hi"', "a,b", "line\nend\r\n", "tab\tand ünïcode \u2028 \x01", "", " [1,2] "]
SCHEMA = Schema(
    attributes=(
        Attribute(
            name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, domain=(-0.5, 2.0**60)
        ),
        Attribute(
            name="job", role=Role.QUASI_IDENTIFIER, kind=Kind.CATEGORICAL, hierarchy=flat(LEAVES)
        ),
        Attribute(name="ill", role=Role.SENSITIVE, kind=Kind.CATEGORICAL),
        Attribute(name='the "note", say', role=Role.INSENSITIVE, kind=Kind.CATEGORICAL),
    ),
    person="pid",
)
NOTE = 'the "note", say'
WHOLE = "[-0.5,1152921504606846976]"
Row = dict[str, str]


def effect(count: int, row: list[int] | None = None) -> tuple[Publish, dict[str, pa.Array]]:
    """Records in as many classes as there are leaves, and their columns."""
    classes = Classes(
        class_id=np.arange(7, 7 + len(LEAVES)),
        low=np.array([[0.0], [1.0], [0.1], [-0.5]]),
        high=np.array([[5.0], [1.0], [1e15], [0.25]]),
        node=np.arange(len(LEAVES), dtype=np.int32).reshape(-1, 1),
    )
    rows = np.array(row if row is not None else [n % len(LEAVES) for n in range(count)], np.int64)
    kept = {
        "ill": pa.array([f"i{n}" for n in range(count)]),
        NOTE: pa.array([NOTES[n % len(NOTES)] for n in range(count)]),
    }
    return Publish(position=np.arange(count), row=rows, classes=classes), kept


def read_csv(content: bytes) -> list[Row]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def read_jsonl(content: bytes) -> list[Row]:
    records = [json.loads(line) for line in content.split(b"\n")[:-1]]
    return [{k: "" if v is None else str(v) for k, v in record.items()} for record in records]


def read_parquet(content: bytes) -> list[Row]:
    records = pa.parquet.read_table(io.BytesIO(content)).to_pylist()
    return [{k: "" if v is None else str(v) for k, v in record.items()} for record in records]


READERS: dict[str, Callable[[bytes], list[Row]]] = {
    "csv": read_csv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
}
FORMATS = pytest.mark.parametrize("form", READERS)


def publish(path: Path, form: str, *effects: Any, bounds: bool = False) -> list[Row]:
    with Sink(str(path), form, Renderer(SCHEMA, bounds=bounds)) as sink:
        for each, kept in effects:
            sink.write(each, kept)
    content = path.read_bytes()
    return READERS[form](gzip.decompress(content) if path.suffix == ".gz" else content)


@pytest.mark.parametrize("name", ["o.csv", "o.jsonl", "o.parquet", "o.csv.gz", "o.jsonl.gz"])
def test_every_format_gives_back_what_was_published(tmp_path: Path, name: str) -> None:
    rows = publish(tmp_path / name, format_of(name), effect(12))
    names = flat(LEAVES).names
    intervals = ["[0,5]", "[1,1]", "[0.1,1000000000000000]", "[-0.5,0.25]"]
    assert rows == [
        {
            "age": intervals[n % 4],
            "job": names[n % 4],
            "ill": f"i{n}",
            NOTE: NOTES[n % len(NOTES)],
            "class_id": str(7 + n % 4),
        }
        for n in range(12)
    ]


@FORMATS
def test_the_columns_come_in_one_order_and_the_person_is_not_among_them(
    tmp_path: Path, form: str
) -> None:
    (row, *_) = publish(tmp_path / "out", form, effect(3))
    assert list(row) == ["age", "job", "ill", NOTE, "class_id"]


@FORMATS
def test_bounds_are_two_columns(tmp_path: Path, form: str) -> None:
    rows = publish(tmp_path / "out", form, effect(2, row=[2, SUPPRESSED]), bounds=True)
    assert list(rows[0]) == ["age_min", "age_max", "job", "ill", NOTE, "class_id"]
    assert (rows[0]["age_min"], rows[0]["age_max"]) == ("0.1", "1000000000000000")
    assert (rows[1]["age_min"], rows[1]["age_max"]) == ("-0.5", str(2**60))


@FORMATS
def test_a_suppressed_record_shows_the_most_general_values_and_no_class(
    tmp_path: Path, form: str
) -> None:
    rows = publish(tmp_path / "out", form, effect(2, row=[SUPPRESSED, 0]))
    assert rows[0] == {"age": WHOLE, "job": "*", "ill": "i0", NOTE: NOTES[0], "class_id": ""}
    assert rows[1]["class_id"] == "7"


@FORMATS
def test_a_null_is_an_empty_value(tmp_path: Path, form: str) -> None:
    (publication, kept) = effect(2)
    rows = publish(tmp_path / "out", form, (publication, kept | {NOTE: pa.array(["x", None])}))
    assert [row[NOTE] for row in rows] == ["x", ""]


@FORMATS
def test_records_of_many_effects_follow_each_other(tmp_path: Path, form: str) -> None:
    rows = publish(tmp_path / "out", form, effect(3), effect(40_000), effect(40_000), effect(2))
    assert len(rows) == 80_005
    assert [row["ill"] for row in rows[:5]] == ["i0", "i1", "i2", "i0", "i1"]


@FORMATS
def test_an_empty_stream_gives_a_file_that_can_be_read(tmp_path: Path, form: str) -> None:
    assert publish(tmp_path / "out", form) == []
    content = (tmp_path / "out").read_bytes()
    if form == "csv":
        assert content == b'age,job,ill,"the ""note"", say",class_id\n'
    if form == "parquet":
        names = pa.parquet.read_schema(io.BytesIO(content)).names
        assert names == ["age", "job", "ill", NOTE, "class_id"]


@FORMATS
def test_the_file_has_no_name_before_it_is_whole(tmp_path: Path, form: str) -> None:
    with Sink(str(tmp_path / "out"), form, Renderer(SCHEMA)) as sink:
        sink.write(*effect(10))
        assert not (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@FORMATS
@pytest.mark.parametrize("gz", ["", ".gz"])
def test_a_failure_leaves_nothing_and_an_older_file_as_it_was(
    tmp_path: Path, form: str, gz: str
) -> None:
    old = tmp_path / f"out{gz}"
    old.write_text("old")

    def fail() -> None:
        with Sink(str(old), form, Renderer(SCHEMA)) as sink:
            sink.write(*effect(10))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == [old.name]
    assert old.read_text() == "old"


def test_a_failure_while_the_file_is_finished_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        publish(tmp_path / "out", "csv", effect(3))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["no-folder/out.csv", "no-folder/out.csv.gz"])
def test_a_file_that_cannot_be_written_is_named_without_its_temporary_name(
    tmp_path: Path, name: str
) -> None:
    path = str(tmp_path / name)
    with pytest.raises(DataError) as caught:
        Sink(path, "csv", Renderer(SCHEMA))
    assert str(caught.value) == f"{path}: cannot be written: No such file or directory"


def test_a_folder_is_no_file_to_write(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="it is a folder"):
        Sink(str(tmp_path), "csv", Renderer(SCHEMA))


def test_a_named_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    with Sink(str(pipe), "csv", Renderer(SCHEMA)) as sink:
        sink.write(*effect(3))
    reader.join(timeout=30)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert len(read_csv(received[0])) == 3


def test_write_returns_the_class_of_every_record(tmp_path: Path) -> None:
    with Sink(str(tmp_path / "out"), "csv", Renderer(SCHEMA)) as sink:
        class_id = sink.write(*effect(3, row=[1, SUPPRESSED, 0]))
    assert class_id.to_pylist() == [8, None, 7]


def test_the_trace_has_a_line_for_every_outcome(tmp_path: Path) -> None:
    trace = Trace(str(tmp_path / "trace.csv"))
    trace.rejected([3, 6], ["site-1", None])
    trace.decided(np.array([5, 4]), "site-1", np.array([1, 0]), pa.array([9, None], pa.int64()))
    trace.decided(np.array([7, 8]), pa.array(["b", 'a,"c"']), np.array([2, 0]), pa.array([9, 9]))
    assert not (tmp_path / "trace.csv").exists()
    trace.commit()
    assert (tmp_path / "trace.csv").read_text().splitlines() == [
        "row,site,position,class_id,outcome",
        "3,site-1,,,rejected",
        "6,,,,rejected",
        "5,site-1,1,9,published",
        "4,site-1,0,,suppressed",
        "7,b,2,9,published",
        '8,"a,""c""",0,9,published',
    ]


def test_dead_letters_are_a_file_only_when_there_are_some(tmp_path: Path) -> None:
    letters = DeadLetters(str(tmp_path / "none.jsonl"))
    letters.commit()
    assert list(tmp_path.iterdir()) == []
    letters.add(4, "age", "not a number", "ü\ud800", {"age": "ü"})
    letters.commit()
    (letter,) = map(json.loads, (tmp_path / "none.jsonl").read_text().splitlines())
    assert letter["row"] == 4
    assert letter["record"] == {"age": "ü"}


def test_private_files_that_are_discarded_leave_nothing(tmp_path: Path) -> None:
    trace, letters = Trace(str(tmp_path / "t")), DeadLetters(str(tmp_path / "d"))
    letters.add(0, "age", "missing value", "", {})
    trace.discard()
    letters.discard()
    assert list(tmp_path.iterdir()) == []
