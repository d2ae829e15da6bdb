"""`dcastle anonymize` when it cannot go on: one clear complaint, an exit code, no half files."""

from __future__ import annotations

import gzip
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Cli, Ended

TOML = """
[privacy]
k = 2
delay_tuples = 50

[person]
column = "pid"

[[attribute]]
name = "age"
role = "quasi-identifier"
kind = "numeric"
domain = [0, 100]
"""
ROWS = "pid,age\n" + "".join(f"p{n},{n % 90}\n" for n in range(300))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where commands run: a schema and 300 good rows."""
    (tmp_path / "s.toml").write_text(TOML)
    (tmp_path / "in.csv").write_text(ROWS)
    return tmp_path


def leftovers(folder: Path) -> set[str]:
    """What a command left in the folder, temporary files included."""
    return {path.name for path in folder.iterdir()} - {"s.toml", "in.csv"}


def complaint(ended: Ended) -> str:
    """The single line that a user is told, without the name of the program."""
    (line,) = ended.stderr.splitlines()
    assert line.startswith("dcastle: ")
    return line.removeprefix("dcastle: ")


def test_every_fault_of_the_schema_is_told_with_its_place(cli: Cli, folder: Path) -> None:
    broken = TOML.replace("k = 2", "k = 1").replace("[0, 100]", "[9, 3]").replace("name", "nmae")
    (folder / "s.toml").write_text(broken)
    ended = cli("anonymize", "in.csv", "-o", "out.csv", "-c", "s.toml")
    assert ended.code == 4
    lines = ended.stderr.splitlines()
    for place, words in (("s.toml:3", "k is 1"), ("s.toml:10", "'name'"), ("s.toml:13", "domain")):
        assert any(place in line and words in line for line in lines), ended.stderr
    assert leftovers(folder) == set()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("in.csv", "-o", "out.csv", "-c", "none.toml"), "none.toml: No such file"),
        (("in.csv", "-o", "out.csv"), "no schema: give one with -c"),
        (("in.csv", "-o", "in.csv", "-c", "s.toml"), "-o and INPUT are the same file"),
        (("in.csv", "-o", "./x/../in.csv", "-c", "s.toml"), "-o and INPUT are the same file"),
        (("in.csv", "-o", "s.toml", "-c", "s.toml"), "-o and -c are the same file"),
        (
            ("in.csv", "-o", "out.csv", "-c", "s.toml", "--trace", "out.csv"),
            "--trace and -o are the same file",
        ),
        (
            ("in.csv", "-o", "o", "-c", "s.toml", "--trace", "o.rejected.jsonl"),
            "--dead-letter and --trace are the same file",
        ),
        (("in.csv", "-o", "out.csv", "-c", "s.toml", "--trace", "-"), "--trace needs a file"),
        (("in.csv", "-o", "out.csv", "-c", "s.toml", "--rows", "5"), "--rows goes with a named"),
        (("in.csv", "-o", "out.parquet.gz", "-c", "s.toml"), "Parquet is compressed already"),
        (("in.csv", "-o", "out.csv", "-c", "s.toml", "--k", "51"), "--k is 51"),
        (("in.csv", "-o", "out.csv", "-c", "s.toml", "--l", "2"), "no attribute is sensitive"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(
    cli: Cli, folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    (folder / "x").mkdir()
    ended = cli("anonymize", *arguments)
    assert ended.code == 4
    assert words in complaint(ended)
    assert leftovers(folder) == {"x"}
    assert (folder / "in.csv").read_text() == ROWS


@pytest.mark.parametrize(
    "arguments", [("--nonsense",), ("--k", "many"), ("--order", "random"), ("more.csv",)]
)
def test_flags_that_do_not_exist_are_bad_arguments(
    cli: Cli, folder: Path, arguments: tuple[str, ...]
) -> None:
    ended = cli("anonymize", "in.csv", "-o", "out.csv", "-c", "s.toml", *arguments)
    assert ended.code == 4
    assert "Usage:" in ended.stderr
    assert leftovers(folder) == set()


def test_bounds_that_would_take_the_name_of_another_column_are_refused(
    cli: Cli, folder: Path
) -> None:
    more = '\n[[attribute]]\nname = "age_min"\nrole = "insensitive"\n'
    (folder / "s.toml").write_text(TOML + more)
    ended = cli("anonymize", "in.csv", "-o", "out.csv", "-c", "s.toml", "--bounds")
    assert ended.code == 4
    assert complaint(ended) == "--bounds would give two columns the name 'age_min'"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("none.csv", "'none.csv' is neither a file nor a named data set"),
        ("storse", "did you mean 'stores'?"),
        ("folder", "'folder' is neither a file nor a named data set"),
        ("/proc/self/mem", "/proc/self/mem: cannot be read: Input/output error"),
        ("empty.csv", "empty.csv: empty, not even a header"),
        ("other.csv", "other.csv: no column 'age'; it has 'pid', 'height'"),
        ("cut.csv.gz", "cut.csv.gz: cannot be read: Compressed file ended"),
        ("no.parquet", "no.parquet: cannot be read"),
    ],
)
def test_data_that_cannot_be_read_are_named_and_leave_no_file(
    cli: Cli, folder: Path, source: str, words: str
) -> None:
    (folder / "folder").mkdir()
    (folder / "empty.csv").touch()
    (folder / "other.csv").write_text("pid,height\np1,180\n")
    (folder / "cut.csv.gz").write_bytes(gzip.compress(ROWS.encode())[:-20])
    (folder / "no.parquet").write_text("PAR1 it is not")
    before = leftovers(folder)
    ended = cli("anonymize", source, "-o", "out.csv", "-c", "s.toml", "--trace", "t.csv")
    assert ended.code == 1
    assert words in complaint(ended)
    assert leftovers(folder) == before


def test_rows_that_cannot_be_used_at_all_are_kept_and_nothing_else(cli: Cli, folder: Path) -> None:
    (folder / "in.csv").write_text("pid,age\np1,old\np2,101\np3,old\np4\n")
    ended = cli("anonymize", "in.csv", "-o", "out.csv", "-c", "s.toml", "--trace", "t.csv")
    assert ended.code == 1
    assert complaint(ended) == (
        "none of the 4 rows could be used; most often (2): column 'age': not a number; "
        "every row is in out.csv.rejected.jsonl with its reason"
    )
    assert leftovers(folder) == {"out.csv.rejected.jsonl"}
    assert len((folder / "out.csv.rejected.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize("flag", ["-o", "--trace", "--dead-letter"])
@pytest.mark.parametrize("place", ["none/file", "/proc/file", "."])
def test_a_place_that_cannot_be_written_is_one_line(
    cli: Cli, folder: Path, flag: str, place: str
) -> None:
    (folder / "in.csv").write_text(ROWS + "p1,old\n")
    files = {"-o": "out.csv", "--trace": "t.csv", "--dead-letter": "d.jsonl"} | {flag: place}
    flags = [word for pair in files.items() for word in pair]
    ended = cli("anonymize", "in.csv", "-c", "s.toml", *flags)
    assert ended.code == 1
    assert complaint(ended).startswith(f"{place}: cannot be written: ")
    assert leftovers(folder) == set()


def test_a_reader_that_goes_away_ends_the_run_without_complaint(cli: Cli, folder: Path) -> None:
    process = cli.start("anonymize", "stores", "--rows", "1000000", "-o", "-")
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"age,")
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait(timeout=120) == 1
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("source", [("stores", "--rows", "1000000000"), ("-", "-c", "s.toml")])
def test_a_run_that_is_stopped_leaves_no_file(
    cli: Cli, folder: Path, source: tuple[str, ...], number: signal.Signals
) -> None:
    process = cli.start("anonymize", *source, "-o", "out.csv", "--trace", "t.csv")
    assert process.stdin is not None
    process.stdin.write((folder / "in.csv").read_bytes())
    process.stdin.flush()
    patience = time.monotonic() + 120
    while len(leftovers(folder)) < 2:
        assert time.monotonic() < patience, "the files were never begun"
        time.sleep(0.01)
    process.send_signal(number)
    # The pipe stays open: nobody but the signal ends the run.
    process.wait(timeout=120)
    _, stderr = process.communicate()
    assert process.returncode == 130
    assert stderr.split() == [b"interrupted"]
    assert leftovers(folder) == set()
