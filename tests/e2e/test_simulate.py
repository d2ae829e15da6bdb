"""`dcastle simulate` as its users meet it: real processes, real files."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scripts.simulation.result import JSON_FIELDS

if TYPE_CHECKING:
    from tests.conftest import Cli

TOML = """
[privacy]
k = 3
l = 2
delay_tuples = 40

[person]
column = "pid"

[[attribute]]
name = "age"
role = "quasi-identifier"
kind = "numeric"
domain = [0, 100]

[[attribute]]
name = "job"
role = "quasi-identifier"
kind = "categorical"
values = ["nurse", "cook", "pilot"]

[[attribute]]
name = "illness"
role = "sensitive"
values = ["i0", "i1", "i2", "i3"]

[[attribute]]
name = "note"
role = "insensitive"
"""
HEADER = "pid,age,job,illness,note,town\n"
JOBS = ("nurse", "cook", "pilot")
TOWNS = ("Ulm", "Bonn", "Kiel")
SMALL = ("-c", "s.toml", "--seed", "1")
STORES = ("--rows", "4000", "--seed", "1")


def line(n: int) -> str:
    town = TOWNS[n % 3]
    return f"p{n * 11 % 401},{20 + n * 7 % 60},{JOBS[n % 3]},i{n * n % 4},n{n},{town}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where commands run: a schema and 600 good rows of 401 persons in three towns."""
    (tmp_path / "s.toml").write_text(TOML)
    (tmp_path / "in.csv").write_text(HEADER + "".join(line(n) for n in range(600)))
    return tmp_path


def run(cli: Cli, *arguments: str) -> dict[str, Any]:
    ended = cli("simulate", *arguments, "--format", "json")
    assert (ended.code, ended.stderr) == (0, "")
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_run_says_every_figure(cli: Cli, folder: Path) -> None:
    told = run(cli, "in.csv", *SMALL, "--sites", "4")
    assert list(told)[: len(JSON_FIELDS)] == list(JSON_FIELDS)
    assert (told["mode"], told["sites"], told["tuples"]) == ("strict", 4, 600)
    assert 0 < told["information_loss"] < 1
    assert told["violations_k"] == told["violations_l"] == told["violations"] == 0
    assert told["delay_max"] <= 40
    size = len((folder / "in.csv").read_text()) - len(HEADER)
    assert told["dataset_bytes"] == size
    assert told["overhead_percent"] == pytest.approx(100 * told["bytes_to_relay"] / size)
    assert told["seed"] == 1
    assert told["input"]["rows"] == 600
    assert told["input"]["dropped_columns"] == ["town"]


def test_compare_runs_all_four_on_the_same_records(cli: Cli, folder: Path) -> None:
    told = run(cli, "in.csv", *SMALL, "--sites", "4", "--compare")
    runs = {each["mode"]: each for each in told["runs"]}
    assert list(runs) == ["centralised", "none", "paper", "strict"]
    assert all(set(JSON_FIELDS) <= set(each) for each in runs.values())
    assert {each["tuples"] for each in runs.values()} == {600}
    assert runs["none"]["bytes_to_relay"] == runs["centralised"]["bytes_to_relay"] == 0
    assert runs["strict"]["bytes_to_relay"] > 0
    assert runs["strict"]["violations"] == runs["none"]["violations"] == 0
    alone = run(cli, "in.csv", *SMALL, "--sites", "4", "--exchange", "none")
    assert alone["information_loss"] == runs["none"]["information_loss"]


def test_the_text_is_a_table_and_what_it_means(cli: Cli, folder: Path) -> None:
    ended = cli("simulate", "in.csv", *SMALL, "--sites", "4", "--compare")
    assert (ended.code, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert lines[0] == (
        "4 sites, 600 records of 401 persons; k=3, l=2, delay 40 records per site; seed 1"
    )
    rows = {each.split()[0]: each for each in lines if each.split()}
    for mode in ("centralised", "none", "paper", "strict"):
        assert mode in rows
    assert any(each.startswith("paper: a reproduction; it published ") for each in lines)
    assert "strict loses " in ended.stdout
    assert "at least 3 persons and 2 sensitive values" in lines[-1]


def test_the_strict_output_of_the_stores_passes_its_audit(cli: Cli) -> None:
    write = cli("data", "write", "stores", "-o", "in.csv", "--rows", "4000", "--schema", "s.toml")
    assert write.code == 0
    files = ("--output", "merged.csv", "--trace", "trace.csv")
    told = run(cli, *STORES, "--compare", *files)
    assert told["runs"][0]["sites"] == 8
    audit = ("-c", "s.toml", "--original", "in.csv", "--trace", "trace.csv")
    ended = cli("verify", "merged.csv", *audit)
    assert ended.code == 0, ended.stdout
    trace = read_csv(cli.folder / "trace.csv")
    assert {row["site"] for row in trace} == {f"store-{n:02d}" for n in range(1, 9)}
    stores = [row["store"] for row in read_csv(cli.folder / "in.csv")]
    assert all(stores[int(row["row"])] == row["site"] for row in trace)
    # A site's own positions are 0, 1, 2, ... without a gap.
    for store, count in Counter(stores).items():
        positions = sorted(int(row["position"]) for row in trace if row["site"] == store)
        assert positions == list(range(count))


@pytest.mark.parametrize("mode", ["none", "strict"])
def test_every_row_has_an_outcome_and_rejected_ones_a_reason(
    cli: Cli, folder: Path, mode: str
) -> None:
    with (folder / "in.csv").open("a") as stream:
        stream.write("p1,old,cook,i1,n,Ulm\np2,30\np3,30,cook,i1,n,\n" + line(9))
    files = ("--output", "out.jsonl", "--trace", "t.csv", "--site-column", "town")
    told = run(cli, "in.csv", *SMALL, "--exchange", mode, *files)
    assert (told["sites"], told["input"]["rows"], told["input"]["rejected"]) == (3, 604, 3)
    assert told["input"]["dead_letter"] == "out.jsonl.rejected.jsonl"
    letters = map(json.loads, (folder / "out.jsonl.rejected.jsonl").read_text().splitlines())
    assert {x["row"]: (x["attribute"], x["reason"]) for x in letters} == {
        600: ("age", "not a number"),
        601: ("", "2 fields instead of 6"),
        602: ("town", "missing value"),
    }
    trace = read_csv(folder / "t.csv")
    assert sorted(int(row["row"]) for row in trace) == list(range(604))
    gone = {row["row"]: row["site"] for row in trace if row["outcome"] == "rejected"}
    assert gone == {"600": "Ulm", "601": "", "602": ""}
    audit = ("-c", "s.toml", "--original", "in.csv", "--trace", "t.csv")
    ended = cli("verify", "out.jsonl", *audit)
    assert ended.code == 0, ended.stdout


def test_a_column_says_where_a_row_comes_from(cli: Cli, folder: Path) -> None:
    told = run(cli, "in.csv", *SMALL, "--site-column", "town", "--trace", "t.csv")
    assert told["sites"] == 3
    assert all(TOWNS[int(row["row"]) % 3] == row["site"] for row in read_csv(folder / "t.csv"))
    ended = cli("simulate", "in.csv", *SMALL, "--site-column", "town", "--sites", "4")
    assert ended.code == 4
    assert "--sites is 4, but column 'town' names 3 sites" in ended.stderr


def test_a_hash_keeps_persons_at_one_site(cli: Cli, folder: Path) -> None:
    run(cli, "in.csv", *SMALL, "--deal", "hash", "--sites", "5", "--trace", "t.csv")
    persons = [row["pid"] for row in read_csv(folder / "in.csv")]
    sites: dict[str, set[str]] = {}
    for row in read_csv(folder / "t.csv"):
        sites.setdefault(persons[int(row["row"])], set()).add(row["site"])
    assert {len(each) for each in sites.values()} == {1}
    assert len(set.union(*sites.values())) == 5


def test_persons_that_are_not_disjoint_as_promised_are_refused(cli: Cli, folder: Path) -> None:
    promise = TOML.replace('column = "pid"', 'column = "pid"\ndisjoint = true')
    (folder / "s.toml").write_text(promise)
    ended = cli("simulate", "in.csv", *SMALL, "--sites", "4")
    assert ended.code == 4
    assert "[person] disjoint is true, but " in ended.stderr
    assert run(cli, "in.csv", *SMALL, "--deal", "hash", "--sites", "4")["violations"] == 0


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(cli: Cli, folder: Path) -> None:
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        files = ("--output", f"{name}.csv", "--trace", f"{name}.trace")
        assert cli("simulate", "--rows", "4000", "--seed", seed, *files).code == 0
    for suffix in ("csv", "trace"):
        a, b, c = ((folder / f"{name}.{suffix}").read_bytes() for name in "abc")
        assert a == b
        assert a != c


def test_a_bad_network_breaks_no_promise_and_can_be_repeated(cli: Cli, folder: Path) -> None:
    network = ("--latency-tuples", "7", "--drop", "0.1", "--duplicate", "0.1")
    for name in "ab":
        files = ("--output", f"{name}.csv", "--trace", f"{name}.trace")
        told = run(cli, "in.csv", *SMALL, "--sites", "3", *network, *files)
        assert told["violations"] == told["lost"] == 0
        assert told["delay_max"] <= 40
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    assert (folder / "a.trace").read_bytes() == (folder / "b.trace").read_bytes()
    audit = ("-c", "s.toml", "--original", "in.csv", "--trace", "a.trace")
    ended = cli("verify", "a.csv", *audit)
    assert ended.code == 0, ended.stdout


def test_a_seed_that_was_not_given_is_told_and_repeats_the_run(cli: Cli, folder: Path) -> None:
    first = run(cli, "in.csv", "-c", "s.toml", "--sites", "3", "--output", "a.csv")
    again = ("--seed", str(first["seed"]), "--output", "b.csv")
    run(cli, "in.csv", "-c", "s.toml", "--sites", "3", *again)
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()


def test_the_schema_says_how_sites_exchange_unless_a_flag_does(cli: Cli, folder: Path) -> None:
    (folder / "s.toml").write_text(TOML + '\n[exchange]\nprotocol = "none"\n')
    assert run(cli, "in.csv", *SMALL)["mode"] == "none"
    assert run(cli, "in.csv", *SMALL, "--exchange", "strict")["mode"] == "strict"


def test_flags_override_the_schema(cli: Cli, folder: Path) -> None:
    flags = ("--k", "5", "--l", "1", "--delay-tuples", "60", "--beta", "10", "--mu", "20")
    ended = cli("simulate", "in.csv", *SMALL, "--exchange", "none", *flags)
    assert "k=5, l=1, delay 60 records per site" in ended.stdout
    assert ended.code == 0


def test_only_the_first_quasi_identifiers_may_be_used(cli: Cli, folder: Path) -> None:
    told = run(cli, "in.csv", *SMALL, "--attributes", "1", "--output", "out.csv")
    assert list(read_csv(folder / "out.csv")[0]) == ["age", "illness", "note", "class_id"]
    assert told["input"]["dropped_columns"] == ["job", "town"]


def test_a_set_is_repeated_to_so_many_rows(cli: Cli, folder: Path) -> None:
    told = run(cli, "in.csv", *SMALL, "--exchange", "none", "--repeat-to", "1500", "--output", "o")
    assert told["tuples"] == len(read_csv(folder / "o")) == 1500
    assert told["dataset_bytes"] == round(
        2.5 * (len((folder / "in.csv").read_text()) - len(HEADER))
    )


def test_a_site_that_dies_takes_no_promise_with_it(cli: Cli, folder: Path) -> None:
    kill = ("--sites", "3", "--kill", "site-2@50", "--output", "out.csv", "--trace", "t.csv")
    told = run(cli, "in.csv", *SMALL, *kill)
    assert told["violations"] == 0
    assert len(read_csv(folder / "out.csv")) + told["lost"] == 600
    assert 0 < told["lost"] <= 200
    trace = Counter((row["site"], row["outcome"]) for row in read_csv(folder / "t.csv"))
    assert sum(trace.values()) == 600
    assert trace["site-2", "rejected"] == told["lost"]


def test_a_pipe_goes_in_and_out_and_the_report_to_the_side(cli: Cli, folder: Path) -> None:
    run(cli, "in.csv", *SMALL, "--sites", "3", "--output", "expected.csv")
    text = (folder / "in.csv").read_text()
    flags = (*SMALL, "--sites", "3", "--output", "-", "--format", "json")
    ended = cli("simulate", "-", *flags, stdin=text)
    assert ended.code == 0
    assert ended.stdout == (folder / "expected.csv").read_text()
    assert json.loads(ended.stderr)["tuples"] == 600


def test_the_report_is_a_page_with_the_command_that_made_it(cli: Cli, folder: Path) -> None:
    run(cli, "in.csv", *SMALL, "--sites", "3", "--compare", "--report", "out.html")
    page = (folder / "out.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<figure>") == 5
    assert "dcastle simulate in.csv -c s.toml --seed 1 --sites 3 --compare" in page
    assert "paper is for comparison only" in page
    assert "http" not in page


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--sites", "0"), "--sites is 0, must be 1 to 1,024"),
        (("--sites", "1025"), "--sites is 1,025, must be 1 to 1,024"),
        (("--latency-tuples", "-1"), "--latency-tuples is -1, must be 0 or more"),
        (("--drop", "1"), "--drop is 1.0, must be 0 or more and below 1"),
        (("--duplicate", "nan"), "--duplicate is nan, must be 0 or more and below 1"),
        (("--kill", "site-9@5"), "--kill: there is no site 'site-9'"),
        (("--kill", "site-1"), "--kill is 'site-1', must be SITE@POSITION"),
        (("--kill", "site-1@2", "--kill", "site-1@3"), "--kill: 'site-1' can die only once"),
        (("--site-column", "town", "--kill", "Rome@5"), "there is no site 'Rome'; there are Ulm"),
        (("--site-column", "town", "--deal", "hash"), "--deal and --site-column are two ways"),
        (("--attributes", "3"), "--attributes is 3, must be 1 to 2"),
        (("--rows", "5"), "--rows goes with a named data set"),
        (("--repeat-to", "0"), "--repeat-to is 0, must be 1 or more"),
        (("--repeat-to", "900", "--trace", "t.csv"), "not with --repeat-to"),
        (("--seed", "-1"), "--seed is -1, must be 0 to"),
        (("--k", "41"), "--k is 41"),
        (("--l", "5"), "--l is 5"),
        (("--output", "in.csv"), "--output and DATA are the same file"),
        (("--trace", "s.toml"), "--trace and -c are the same file"),
        (("--report", "x", "--output", "x"), "--report and --output are the same file"),
        (("--trace", "-"), "--trace needs a file"),
        (("--output", "x.parquet.gz"), "Parquet is compressed already"),
        (
            ("--compare", "--exchange", "paper", "--output", "x"),
            "with --compare the files are of the strict run, not of paper",
        ),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(
    cli: Cli, folder: Path, flags: tuple[str, ...], words: str
) -> None:
    before = {path.name for path in folder.iterdir()}
    ended = cli("simulate", "in.csv", "-c", "s.toml", *flags)
    assert ended.code == 4, ended.stderr
    assert words in ended.stderr
    assert {path.name for path in folder.iterdir()} == before


def test_all_faults_are_told_at_once(cli: Cli, folder: Path) -> None:
    flags = ("--sites", "0", "--drop", "2", "--k", "1", "--kill", "x", "--trace", "-")
    lines = cli("simulate", "in.csv", "-c", "s.toml", *flags).stderr.splitlines()
    for words in ("--sites is 0", "--drop is 2.0", "--k is 1", "--kill is 'x'", "--trace needs"):
        assert any(words in each for each in lines)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("none.csv", "'none.csv' is neither a file nor a named data set"),
        ("empty.csv", "empty.csv: empty, not even a header"),
        ("header.csv", "header.csv: no rows: nothing to simulate"),
        ("other.csv", "other.csv: no column 'age'"),
        ("bad.csv", "none of the 1 rows could be used"),
    ],
)
def test_data_that_cannot_be_simulated_are_named_and_leave_no_file(
    cli: Cli, folder: Path, source: str, words: str
) -> None:
    (folder / "empty.csv").touch()
    (folder / "header.csv").write_text(HEADER)
    (folder / "other.csv").write_text("pid\np1\n")
    (folder / "bad.csv").write_text(HEADER + "p1,old,cook,i1,n,Ulm\n")
    before = {path.name for path in folder.iterdir()}
    files = ("--output", "o.csv", "--trace", "t.csv", "--report", "r.html", "--dead-letter", "d")
    ended = cli("simulate", source, *SMALL, *files)
    assert ended.code == 1
    assert words in ended.stderr
    left = {path.name for path in folder.iterdir()} - before
    assert left == ({"d"} if source == "bad.csv" else set())


def test_help_has_examples_and_says_what_paper_is(cli: Cli) -> None:
    told = " ".join(cli("simulate", "--help").stdout.split())
    assert "dcastle simulate --compare" in told
    assert "`paper` is a reproduction of dCASTLE and does not keep k in the merged output" in told
