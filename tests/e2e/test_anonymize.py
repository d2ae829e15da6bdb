"""`dcastle anonymize` as its users meet it: real processes, real files, real pipes."""

from __future__ import annotations

import csv
import json
import os
import select
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from scripts.datasets.registry import resolve

if TYPE_CHECKING:
    from tests.conftest import Cli

TOML = """
[privacy]
k = 3
l = 2
delay_tuples = 50

[person]
column = "pid"

[input]
missing = ["", "?"]

[[attribute]]
name = "age"
role = "quasi-identifier"
kind = "numeric"
domain = [0, 100]

[[attribute]]
name = "weight"
role = "quasi-identifier"
kind = "numeric"
domain = [0, 200]
policy = "clamp"

[[attribute]]
name = "job"
role = "quasi-identifier"
kind = "categorical"
values = ["nurse", "cook", "pilot"]

[[attribute]]
name = "town"
role = "quasi-identifier"
kind = "categorical"
values = ["Ulm", "Bonn"]
policy = "suppress"

[[attribute]]
name = "illness"
role = "sensitive"

[[attribute]]
name = "note"
role = "insensitive"

[[attribute]]
name = "phone"
role = "identifier"
"""
NAMES = ["pid", "age", "weight", "job", "town", "illness", "note", "phone", "shoe"]
QUIET = ("--seed", "1", "--format", "json")


def person(n: int, **other: str) -> dict[str, str]:
    row = {
        "pid": f"p-secret-{n}",
        "age": str(20 + n * 7 % 50),
        "weight": str(50 + n % 30),
        "job": ("nurse", "cook", "pilot")[n % 3],
        "town": ("Ulm", "Bonn")[n % 2],
        "illness": f"i{n % 4}",
        "note": f'n{n}, "so"\nit is',
        "phone": f"555-{n}",
        "shoe": "42",
    }
    return row | other


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, NAMES, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def letters(path: Path) -> dict[int, dict[str, Any]]:
    return {letter["row"]: letter for letter in map(json.loads, path.read_text().splitlines())}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where commands run: a schema and 300 good rows of 300 persons."""
    (tmp_path / "s.toml").write_text(TOML)
    write_csv(tmp_path / "in.csv", [person(n) for n in range(300)])
    return tmp_path


def run(cli: Cli, *arguments: str) -> dict[str, Any]:
    """Anonymise to a good end; returns the summary."""
    ended = cli("anonymize", *arguments, *QUIET)
    assert (ended.code, ended.stderr) == (0, "")
    summary: dict[str, Any] = json.loads(ended.stdout)
    return summary


def audit(cli: Cli, output: str, original: str, trace: str, config: str = "s.toml") -> None:
    ended = cli("verify", output, "-c", config, "--original", original, "--trace", trace)
    assert ended.code == 0, ended.stdout + ended.stderr


def test_the_stores_stream_passes_its_audit(cli: Cli) -> None:
    write = cli("data", "write", "stores", "-o", "in.csv", "--rows", "20000", "--schema", "s.toml")
    assert write.code == 0
    summary = run(cli, "in.csv", "-o", "out.csv", "-c", "s.toml", "--trace", "t.csv")
    assert summary["published"] + summary["suppressed"] == summary["rows"] == 20_000
    assert summary["published"] > 19_000
    assert summary["delay_max"] <= 500
    audit(cli, "out.csv", "in.csv", "t.csv")


def test_the_real_adult_data_pass_their_audit(cli: Cli, data_dir: Path) -> None:
    where = ("--data-dir", str(data_dir))
    write = cli("data", "write", "adult", "-o", "in.csv", "--schema", "s.toml", *where)
    assert write.code == 0, write.stderr
    summary = run(cli, "in.csv", "-o", "out.csv", "-c", "s.toml", "--trace", "t.csv")
    assert summary["published"] > 0.9 * summary["rows"] > 25_000
    audit(cli, "out.csv", "in.csv", "t.csv")
    named = run(cli, "adult", "-o", "named.csv", *where)
    assert named["rows"] == summary["rows"]
    assert (cli.folder / "named.csv").read_bytes() == (cli.folder / "out.csv").read_bytes()


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(cli: Cli, folder: Path) -> None:
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        files = ("-o", f"{name}.csv", "--trace", f"{name}.trace")
        ended = cli("anonymize", "stores", "--rows", "5000", *files, "--seed", seed)
        assert ended.code == 0
    for suffix in ("csv", "trace"):
        a, b, c = ((folder / f"{name}.{suffix}").read_bytes() for name in "abc")
        assert a == b
        assert a != c


def test_a_seed_that_was_not_given_is_told_and_repeats_the_run(cli: Cli, folder: Path) -> None:
    first = cli("anonymize", "in.csv", "-o", "a.csv", "-c", "s.toml", "--format", "json")
    seed = str(json.loads(first.stdout)["seed"])
    assert cli("anonymize", "in.csv", "-o", "b.csv", "-c", "s.toml", "--seed", seed).code == 0
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()


def test_every_format_in_and_out_gives_the_same_published_rows(cli: Cli, folder: Path) -> None:
    rows = read_csv(folder / "in.csv")
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = pa.Table.from_pylist(rows)
    age = table.schema.get_field_index("age")
    typed = table.set_column(age, "age", table["age"].cast(pa.int16()))
    pa.parquet.write_table(typed, folder / "in.parquet")
    run(cli, "in.csv", "-o", "expected.csv", "-c", "s.toml")
    expected = read_csv(folder / "expected.csv")
    assert len(expected) == 300
    for source, output in (("in.jsonl", "b.jsonl.gz"), ("in.parquet", "c.parquet")):
        run(cli, source, "-o", output, "-c", "s.toml", "--trace", "t.csv")
        audit(cli, output, source, "t.csv")
        run(cli, source, "-o", "again.csv", "-c", "s.toml")
        assert read_csv(folder / "again.csv") == expected
    published = pa.parquet.read_table(folder / "c.parquet").to_pylist()
    texts = [{k: "" if v is None else str(v) for k, v in row.items()} for row in published]
    assert texts == expected


def test_a_pipe_goes_in_and_out_and_the_report_to_the_side(cli: Cli, folder: Path) -> None:
    run(cli, "in.csv", "-o", "expected.csv", "-c", "s.toml")
    text = (folder / "in.csv").read_text()
    ended = cli("anonymize", "-", "-o", "-", "-c", "s.toml", *QUIET, stdin=text)
    assert ended.code == 0
    assert ended.stdout == (folder / "expected.csv").read_text()
    assert json.loads(ended.stderr)["rows"] == 300


def test_a_quiet_pipe_is_published_when_its_seconds_are_over(cli: Cli, folder: Path) -> None:
    text = (folder / "in.csv").read_text()
    flags = ("--delay-seconds", "1", "--delay-tuples", "100000")
    process = cli.start("anonymize", "-", "-o", "-", "-c", "s.toml", *flags)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(text.encode())
    process.stdin.flush()
    # All rows come although the pipe stays open. Each ends with its class, on a line of its own.
    seen, patience = b"", time.monotonic() + 120
    while len(list(csv.reader(seen.decode().splitlines(keepends=True)))) < 301:
        ready, _, _ = select.select([process.stdout], [], [], patience - time.monotonic())
        assert ready, "nothing was published while the pipe was open"
        seen += os.read(process.stdout.fileno(), 1 << 20)
    assert process.poll() is None
    _, stderr = process.communicate()
    assert process.returncode == 0
    assert b"300 rows" in stderr


BAD = {
    "missing number": person(1, age="?"),
    "no number": person(2, age="old"),
    "not finite": person(3, age="nan"),
    "outside the domain": person(4, age="101"),
    "missing leaf": person(5, job=""),
    "foreign leaf": person(6, job="baker"),
    "missing sensitive": person(7, illness="?"),
    "missing person": person(8, pid=""),
}


def test_bad_rows_of_every_kind_are_accounted_for(cli: Cli, folder: Path) -> None:
    write_csv(folder / "bad.csv", [person(n) for n in range(100)] + list(BAD.values()))
    lines = [b"p1,20\n", b"p1,20,\xff\n", b"p\xff,20,60,cook,Ulm,i1,n,555,42\n"]
    good = [person(900, weight="999"), person(901, town="Atlantis"), person(902, town="?")]
    write_csv(folder / "more.csv", good)
    more = (folder / "more.csv").read_bytes().split(b"\n", 1)[1]
    end = b'px,20,60,cook,Ulm,i1,n,555,"open\n'
    content = (folder / "bad.csv").read_bytes() + b"".join(lines) + more + end
    (folder / "bad.csv").write_bytes(content)

    summary = run(cli, "bad.csv", "-o", "out.csv", "-c", "s.toml", "--trace", "t.csv")

    rejected = letters(folder / "out.csv.rejected.jsonl")
    assert summary["rows"] == 100 + len(BAD) + 3 + 3 + 1
    assert summary["published"] + summary["suppressed"] + len(rejected) == summary["rows"]
    assert summary["rejected"] == len(rejected)
    assert len(read_csv(folder / "out.csv")) == 100 + 3
    found = {n: (x["attribute"], x["reason"], x["value"]) for n, x in rejected.items()}
    assert found == {
        100: ("age", "missing value", "?"),
        101: ("age", "not a number", "old"),
        102: ("age", "not a number", "nan"),
        103: ("age", "outside the domain", "101"),
        104: ("job", "missing value", ""),
        105: ("job", "not in the hierarchy", "baker"),
        106: ("illness", "missing value", "?"),
        107: ("pid", "missing value", ""),
        108: ("", "2 fields instead of 9", ""),
        109: ("", "3 fields instead of 9", ""),
        110: ("pid", "not valid UTF-8", "p\\xff"),
        114: ("", "a quote that is not closed, in 1 lines up to the end", ""),
    }
    assert rejected[108]["record"] == "p1,20"
    assert rejected[105]["record"]["illness"] == "i2"
    assert summary["clamped"] == {"weight": 1}
    assert {each["reason"]: each["rows"] for each in summary["suppressed_by_policy"]} == {
        "not in the hierarchy": 1,
        "missing value": 1,
    }
    assert summary["not_in_hierarchy"] == {"job": ["baker"], "town": ["Atlantis"]}
    outcomes = Counter(row["outcome"] for row in read_csv(folder / "t.csv"))
    assert outcomes["rejected"] == len(rejected)
    assert sum(outcomes.values()) == summary["rows"]
    rows = sorted(int(row["row"]) for row in read_csv(folder / "t.csv"))
    assert rows == list(range(summary["rows"]))


def test_a_bad_row_in_one_block_of_many_does_not_disturb_the_others(cli: Cli, folder: Path) -> None:
    # Over 8 MiB, so that blocks with and without a bad row wait side by side.
    rows = [person(n, note="x" * 800) for n in range(10_000)]
    write_csv(folder / "in.csv", [*rows, person(10_000, age="old"), *rows])
    summary = run(cli, "in.csv", "-o", "out.csv", "-c", "s.toml", "--trace", "t.csv")
    assert (summary["rows"], summary["rejected"]) == (20_001, 1)
    assert list(letters(folder / "out.csv.rejected.jsonl")) == [10_000]
    audit(cli, "out.csv", "in.csv", "t.csv")


def test_the_summary_says_what_a_reader_needs(cli: Cli, folder: Path) -> None:
    write_csv(folder / "in.csv", [*(person(n) for n in range(50)), person(50, age="old")])
    lines = cli("anonymize", "in.csv", "-o", "out.csv", "-c", "s.toml").stdout.splitlines()
    assert lines[0].startswith("51 rows in ")
    assert "dropped columns (identifiers, or not in the schema): 'phone', 'shoe'" in lines
    assert "  rejected 1: column 'age': not a number" in lines
    assert lines[-1] == "  rejected rows are in out.csv.rejected.jsonl"


@pytest.mark.parametrize("source", ["in.csv", "in.jsonl", "in.parquet"])
def test_columns_that_are_dropped_are_told_and_neither_they_nor_persons_are_published(
    cli: Cli, folder: Path, source: str
) -> None:
    rows = read_csv(folder / "in.csv")
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pa.parquet.write_table(pa.Table.from_pylist(rows), folder / "in.parquet")
    summary = run(cli, source, "-o", "out.csv", "-c", "s.toml")
    assert summary["dropped_columns"] == ["phone", "shoe"]
    header = list(read_csv(folder / "out.csv")[0])
    assert header == ["age", "weight", "job", "town", "illness", "note", "class_id"]
    text = (folder / "out.csv").read_text()
    assert "p-secret" not in text
    assert "555-" not in text


def test_input_order_gives_the_rows_in_the_order_of_the_input(cli: Cli, folder: Path) -> None:
    run(cli, "in.csv", "-o", "out.csv", "-c", "s.toml", "--order", "input", "--trace", "t.csv")
    notes = [row["note"] for row in read_csv(folder / "out.csv")]
    assert notes == [row["note"] for row in read_csv(folder / "in.csv")]
    audit(cli, "out.csv", "in.csv", "t.csv")
    run(cli, "in.csv", "-o", "released.csv", "-c", "s.toml")
    assert [row["note"] for row in read_csv(folder / "released.csv")] != notes


def test_a_person_who_comes_back_counts_once(cli: Cli, folder: Path) -> None:
    # Two persons only, many rows each: never three of them in a class.
    rows = [person(n) | {"pid": f"p{n % 2}"} for n in range(200)]
    write_csv(folder / "in.csv", rows)
    summary = run(cli, "in.csv", "-o", "out.csv", "-c", "s.toml", "--trace", "t.csv")
    assert (summary["published"], summary["suppressed"]) == (0, 200)
    write_csv(folder / "in.csv", [person(n) | {"pid": f"p{n * 7 % 40}"} for n in range(400)])
    summary = run(cli, "in.csv", "-o", "out.csv", "-c", "s.toml", "--trace", "t.csv")
    assert summary["published"] > 300
    audit(cli, "out.csv", "in.csv", "t.csv")


def test_blanks_around_a_person_do_not_make_a_second_one(cli: Cli, folder: Path) -> None:
    rows = [person(n) | {"pid": " " * (n % 3) + f"p{n // 3}"} for n in range(300)]
    write_csv(folder / "in.csv", rows)
    run(cli, "in.csv", "-o", "out.csv", "-c", "s.toml", "--trace", "t.csv")
    audit(cli, "out.csv", "in.csv", "t.csv")


def test_more_persons_asked_for_than_there_are_suppresses_all_and_says_what_to_do(
    cli: Cli, folder: Path
) -> None:
    flags = ("--k", "301", "--delay-tuples", "1000")
    ended = cli("anonymize", "in.csv", "-o", "out.csv", "-c", "s.toml", *flags)
    assert ended.code == 0
    assert "lower k or l, or raise the delay" in ended.stdout
    assert {row["class_id"] for row in read_csv(folder / "out.csv")} == {""}


def test_memory_is_bounded_by_the_delay_and_not_by_the_stream(cli: Cli, folder: Path) -> None:
    cli("data", "write", "stores", "-o", "none.csv", "--rows", "1", "--schema", "stores.toml")
    flags = ("-c", "stores.toml", "--delay-tuples", "1000")
    process = cli.start("anonymize", "-", "-o", "out.csv", *flags)
    assert process.stdin is not None
    batches = resolve("stores").batches(1_500_000)
    first = next(batches)
    with process.stdin as stream, pa.csv.CSVWriter(stream, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout as stdout, process.stderr as stderr:
        assert b"1,500,000 rows" in stdout.read()
        assert stderr.read() == b""
    assert process.returncode == 0
    assert usage.ru_maxrss < 1024 * 1024  # KiB
