"""The auditor: every way in which a publication can be wrong has a test where it is caught."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from core.verify_findings import LISTED_PER_KIND_MAX
from scripts.cli import run

TOML = """
[privacy]
k = 2
l = 2
delay_tuples = 100

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
name = "job"
role = "quasi-identifier"
kind = "categorical"
hierarchy = "job.csv"

[[attribute]]
name = "illness"
role = "sensitive"
kind = "categorical"

[[attribute]]
name = "visit"
role = "insensitive"

[[attribute]]
name = "phone"
role = "identifier"
"""

JOBS = "nurse;Medical;Any\ndoctor;Medical;Any\nclerk;Office;Any\ncook;Cook;Any\n"

ORIGINAL = """\
pid,age,job,illness,visit,phone
a,20,nurse,flu,1,555
b,25,doctor,cold,2,556
a,22,nurse,flu,3,555
c,40,clerk,flu,4,557
d,50,clerk,gout,5,558
e,90,cook,gout,6,559
f,abc,cook,gout,7,560
"""

OUTPUT = """\
age,job,illness,visit,class_id
"[20,25]",Medical,flu,1,10
"[20,25]",Medical,cold,2,10
"[40,50]",clerk,flu,4,11
"[40,50]",clerk,gout,5,11
"[20,25]",Medical,flu,3,10
"[0,100]",Any,gout,6,
"""

TRACE = """\
row,site,position,class_id,outcome
0,s,0,10,published
1,s,1,10,published
3,s,3,11,published
4,s,4,11,published
2,s,2,10,published
5,s,5,,suppressed
6,s,,,rejected
"""


class Case:
    """A sound publication with its witnesses on disk; tests spoil one thing and audit it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys
        for name, text in {
            "dcastle.toml": TOML,
            "job.csv": JOBS,
            "original.csv": ORIGINAL,
            "output.csv": OUTPUT,
            "trace.csv": TRACE,
        }.items():
            (folder / name).write_text(text)

    def spoil(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    def run(self, *options: str, output: str = "output.csv") -> tuple[int, str, str]:
        config = ["-c", str(self.folder / "dcastle.toml")]
        code = run(["verify", str(self.folder / output), *config, *options])
        out, err = self.capsys.readouterr()
        return code, out, err

    def verify(
        self,
        *,
        output: str = "output.csv",
        original: str | None = "original.csv",
        trace: str | None = "trace.csv",
    ) -> dict[str, Any]:
        options = ["--format", "json"]
        options += ["--original", str(self.folder / original)] if original else []
        options += ["--trace", str(self.folder / trace)] if trace else []
        code, out, err = self.run(*options, output=output)
        assert out, err
        result: dict[str, Any] = json.loads(out)
        assert code == (0 if result["passed"] else 1)
        assert result["passed"] == (not result["breaches"]) == (result["breach_count"] == 0)
        return result


@pytest.fixture
def case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Case:
    return Case(tmp_path, capsys)


def kinds(result: dict[str, Any]) -> set[str]:
    return set(result["breach_count_by_kind"])


def messages(result: dict[str, Any]) -> str:
    return "\n".join(breach["message"] for breach in result["breaches"])


# What passes


def test_a_sound_publication_passes_with_the_figures_computed_by_hand(case: Case) -> None:
    result = case.verify()

    loss_10, loss_11 = (0.05 + 1 / 3) / 2, 0.1 / 2
    assert result == {
        "passed": True,
        "k": 2,
        "l": 2,
        "t": pytest.approx(1 / 3),
        "k_required": 2,
        "l_required": 2,
        "k_counts": "persons",
        "k_by_values": 2,
        "l_by_values": 2,
        "classes": 2,
        "rows": 6,
        "suppressed": 1,
        "suppressed_share": pytest.approx(1 / 6),
        "rejected": 1,
        "discernibility": 3 * 3 + 2 * 2 + 1 * 6,
        "average_class_size": 2.5,
        "average_class_size_over_k": 1.25,
        "information_loss": pytest.approx((3 * loss_10 + 2 * loss_11 + 1) / 6),
        "information_loss_published": pytest.approx((3 * loss_10 + 2 * loss_11) / 5),
        "loss_by_attribute": {
            "age": pytest.approx((3 * 0.05 + 2 * 0.1 + 1) / 6),
            "job": pytest.approx((3 * (1 / 3) + 2 * 0 + 1) / 6),
        },
        "breach_count": 0,
        "breach_count_by_kind": {},
        "breaches": [],
        "worst": [
            {
                "class_id": 11,
                "persons": 2,
                "rows": 2,
                "values": 2,
                "shown": {"age": "[40,50]", "job": "clerk"},
            },
            {
                "class_id": 10,
                "persons": 2,
                "rows": 3,
                "values": 2,
                "shown": {"age": "[20,25]", "job": "Medical"},
            },
        ],
        "notes": [],
    }


def test_without_witnesses_rows_are_counted_and_the_report_says_so(case: Case) -> None:
    result = case.verify(original=None, trace=None)

    assert (result["passed"], result["k"], result["k_counts"]) == (True, 2, "rows")
    assert result["rejected"] is None
    assert "k counts rows" in result["notes"][0]


def test_without_a_person_column_every_row_is_a_person(case: Case) -> None:
    case.spoil("dcastle.toml", '[person]\ncolumn = "pid"', "")

    assert case.verify(original=None, trace=None)["k_counts"] == "persons"


def test_a_hierarchy_can_be_a_nested_table(case: Case) -> None:
    case.spoil(
        "dcastle.toml",
        'hierarchy = "job.csv"',
        'hierarchy = { Any = { Medical = ["nurse", "doctor"], Office = ["clerk"], cook = [] } }',
    )
    result = case.verify()

    assert result["passed"]
    assert result["loss_by_attribute"]["job"] == pytest.approx((3 * (1 / 3) + 1) / 6)


def test_a_hierarchy_can_be_a_flat_list_of_values(case: Case) -> None:
    case.spoil("dcastle.toml", 'hierarchy = "job.csv"', 'values = ["nurse", "doctor", "clerk"]')
    output = OUTPUT.replace("Medical", "*").replace("Any", "*")
    (case.folder / "output.csv").write_text(output)

    assert case.verify(original=None, trace=None)["passed"]


def test_a_hierarchy_with_commas_may_repeat_a_label_to_fill_up(case: Case) -> None:
    jobs = "nurse,Medical,Any\ndoctor,Medical,Any\nclerk,clerk,Any\ncook,cook,Any\n"
    (case.folder / "job.csv").write_text(jobs)

    assert case.verify()["passed"]


def test_a_publication_of_suppressed_rows_only_passes_with_a_note(case: Case) -> None:
    header, *_, suppressed = OUTPUT.splitlines()
    (case.folder / "output.csv").write_text(f"{header}\n{suppressed}\n")
    result = case.verify(original=None, trace=None)

    assert (result["passed"], result["k"], result["l"], result["t"]) == (True, None, None, None)
    assert "no class" in result["notes"][0]


@pytest.mark.parametrize(("name", "text"), [("o.csv", OUTPUT.splitlines()[0]), ("o.jsonl", "")])
def test_an_empty_publication_passes_with_a_note(case: Case, name: str, text: str) -> None:
    (case.folder / name).write_text(text)
    result = case.verify(output=name, original=None, trace=None)

    assert (result["passed"], result["k"], result["rows"]) == (True, None, 0)
    assert "no rows" in result["notes"][0]


def test_an_empty_publication_is_a_breach_when_the_trace_says_that_rows_were_published(
    case: Case,
) -> None:
    (case.folder / "output.csv").write_text(OUTPUT.splitlines()[0])

    assert kinds(case.verify()) == {"count", "values"}


# Formats


def rows_of(text: str) -> list[dict[str, str | None]]:
    rows = list(csv.DictReader(text.splitlines()))
    return [{name: value or None for name, value in row.items()} for row in rows]


def write_csv_gz(text: str, path: Path) -> None:
    path.write_bytes(gzip.compress(text.encode()))


def write_jsonl(text: str, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n\n" for row in rows_of(text)))


def write_jsonl_gz(text: str, path: Path) -> None:
    path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in rows_of(text)).encode()))


def write_parquet(text: str, path: Path) -> None:
    table = pa.Table.from_pylist(rows_of(text))
    for name in {"class_id", "visit"}.intersection(table.column_names):
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].cast(pa.int64()))
    pa.parquet.write_table(table, path)


def write_semicolons(text: str, path: Path) -> None:
    with path.open("w", newline="") as stream:
        csv.writer(stream, delimiter=";").writerows(csv.reader(text.splitlines()))


@pytest.mark.parametrize(
    ("suffix", "write"),
    [
        ("csv.gz", write_csv_gz),
        ("jsonl", write_jsonl),
        ("jsonl.gz", write_jsonl_gz),
        ("parquet", write_parquet),
        ("csv", write_semicolons),
    ],
)
def test_all_formats_give_the_same_audit(
    case: Case, suffix: str, write: Callable[[str, Path], None]
) -> None:
    write(OUTPUT, case.folder / f"other.{suffix}")
    write(ORIGINAL, case.folder / f"raw.{suffix}")

    assert case.verify(output=f"other.{suffix}", original=f"raw.{suffix}") == case.verify()


def with_bounds(output: str) -> str:
    header, *rows = output.splitlines()
    header = header.replace("age", "age_min,age_max")
    return "\n".join([header, *(row.replace('"[', "").replace(']"', "") for row in rows)])


def test_bounds_in_two_columns_give_the_same_audit(case: Case) -> None:
    (case.folder / "bounds.csv").write_text(with_bounds(OUTPUT))

    assert case.verify(output="bounds.csv") == case.verify()


def test_a_number_may_be_written_differently_in_the_original(case: Case) -> None:
    case.spoil("original.csv", "flu,1,", "flu,1.0,")
    case.spoil("original.csv", "a,20,", "a, 2e1 ,")

    assert case.verify()["passed"]


def test_rows_of_the_original_that_cannot_be_read_keep_their_numbers(case: Case) -> None:
    header, *rows = ORIGINAL.encode().splitlines()
    odd = [b"too,few", b'x,1,"two\nlines\n",flu,1,2', b"\xff,\xfe,cook,gout,7,1", b"a,b,c,d,e,f,g"]
    (case.folder / "original.csv").write_bytes(
        b"\n".join([b"", header, *odd, *rows[:3], b"", *rows[3:]])
    )
    _, *lines = TRACE.splitlines()
    trace = [f"{int(line[0]) + 4}{line[1:]}" for line in lines]
    rejected = [f"{row},s,,,rejected" for row in range(4)]
    (case.folder / "trace.csv").write_text("\n".join([TRACE.splitlines()[0], *trace, *rejected]))
    result = case.verify()

    assert result["passed"], messages(result)
    assert result["rejected"] == 5


def test_json_lines_of_the_original_that_cannot_be_read_keep_their_numbers(case: Case) -> None:
    write_jsonl(ORIGINAL, case.folder / "raw.jsonl")
    lines = (case.folder / "raw.jsonl").read_bytes().splitlines()
    lines[-2:] = [b'{"pid": \xff}', b"[1]", b'{"illness": "\\ud800"}', b"not json"]
    (case.folder / "raw.jsonl").write_bytes(b"\n".join(lines))
    with (case.folder / "trace.csv").open("a") as trace:
        trace.writelines(f"{row},s,,,rejected\n" for row in (7, 8, 9))

    assert case.verify(original="raw.jsonl")["passed"]


# Breaches that the publication shows by itself


def test_a_class_with_one_person_too_few_is_caught_though_its_rows_suffice(case: Case) -> None:
    case.spoil("original.csv", "b,25", "a,25")
    result = case.verify()

    assert (result["k"], kinds(result)) == (1, {"k"})
    assert result["breaches"][0]["class_id"] == 10
    assert messages(result) == "class 10 has 1 of k=2 persons"
    assert case.verify(original=None, trace=None)["passed"]


def test_a_row_whose_person_is_missing_counts_for_nobody(case: Case) -> None:
    case.spoil("original.csv", "b,25", "?,25")

    assert case.verify()["k"] == 1


def test_a_class_with_too_few_rows_is_caught_without_witnesses(case: Case) -> None:
    case.spoil("output.csv", '"[40,50]",clerk,gout,5,11\n', "")
    result = case.verify(original=None, trace=None)

    assert messages(result).splitlines()[0] == "class 11 has 1 of k=2 rows"
    assert kinds(result) == {"k", "l"}


def test_a_class_with_one_sensitive_value_too_few_is_caught(case: Case) -> None:
    case.spoil("output.csv", "gout,5", "flu,5")
    case.spoil("original.csv", "gout,5", "flu,5")
    result = case.verify()

    assert (result["l"], kinds(result)) == (1, {"l"})
    assert messages(result) == "class 11 has 1 of l=2 values of 'illness'"


@pytest.mark.parametrize("value", ["?", "", " flu "])
def test_a_missing_or_padded_sensitive_value_adds_nothing_to_l(case: Case, value: str) -> None:
    case.spoil("output.csv", "gout,5", f"{value},5")

    assert case.verify(original=None, trace=None)["l"] == 1


def test_a_class_with_two_generalisations_is_caught(case: Case) -> None:
    case.spoil("output.csv", '"[20,25]",Medical,flu,3', '"[20,26]",Medical,flu,3')
    result = case.verify()

    assert kinds(result) == {"mixed-class"}
    assert messages(result) == "class 10 shows age '[20,26]' and '[20,25]'"
    assert result["k_by_values"] == 1


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        ('"[0,100]",Office', "job 'Office'"),
        ('"[0,99]",Any', "age '[0,99]'"),
        ('"[1,100]",Any', "age '[1,100]'"),
    ],
)
def test_a_row_without_a_class_that_shows_something_is_caught(
    case: Case, shown: str, told: str
) -> None:
    case.spoil("output.csv", '"[0,100]",Any', shown)
    result = case.verify()

    assert kinds(result) == {"not-suppressed"}
    assert messages(result) == f"row 5 of the output looks suppressed but shows {told}"


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ('"[20,x]",Medical', "is no interval"),
        ("25,Medical", "is no interval"),
        ('"[nan,25]",Medical', "is no interval"),
        (",Medical", "is no interval"),
        ('"[25,20]",Medical', "has its ends crossed"),
        ('"[-1e308,1e308]",Medical', "is not inside the domain [0,100]"),
        ('"[20,101]",Medical', "is not inside the domain [0,100]"),
        ('"[-1,25]",Medical', "is not inside the domain [0,100]"),
        ('" [20,25]",Medical', "is no interval"),
        ('"[20,25]",Medicine', "is no node of the hierarchy"),
        ('"[20,25]",', "is no node of the hierarchy"),
    ],
)
def test_a_value_that_cannot_be_read_is_caught(case: Case, shown: str, reason: str) -> None:
    output = OUTPUT.replace('"[20,25]",Medical', shown)
    (case.folder / "output.csv").write_text(output)
    result = case.verify()

    assert kinds(result) == {"unreadable"}
    assert reason in messages(result)
    assert "3 rows, first row 0" in messages(result)


def test_bounds_that_cannot_be_read_are_caught(case: Case) -> None:
    (case.folder / "output.csv").write_text(with_bounds(OUTPUT).replace("20,25", "20,"))

    assert "'[20,]' is no interval" in messages(case.verify())


def test_a_null_generalisation_is_caught(case: Case) -> None:
    write_jsonl(OUTPUT.replace("Medical", ""), case.folder / "output.jsonl")

    assert "job '' is no node" in messages(case.verify(output="output.jsonl"))


def test_a_class_id_that_is_no_whole_number_is_caught(case: Case) -> None:
    case.spoil("output.csv", "flu,3,10", "flu,3,1o")
    result = case.verify(original=None, trace=None)

    assert kinds(result) == {"unreadable"}
    assert messages(result) == "row 4 of the output: class id '1o' is no whole number"


@pytest.mark.parametrize("column", ["pid", "phone"])
def test_a_published_person_or_identifier_is_caught(case: Case, column: str) -> None:
    header, *rows = OUTPUT.splitlines()
    leaking = [f"{column},{header}", *(f"{place},{row}" for place, row in enumerate(rows))]
    (case.folder / "output.csv").write_text("\n".join(leaking))
    result = case.verify()

    assert kinds(result) == {"leaked-column"}
    assert f"column '{column}'" in messages(result)


def test_a_column_that_the_schema_does_not_name_is_caught(case: Case) -> None:
    (case.folder / "output.csv").write_text(OUTPUT.replace(",class_id", ",class_id,zip"))
    output = (case.folder / "output.csv").read_text().splitlines()
    (case.folder / "output.csv").write_text("\n".join([output[0], *(f"{r},9" for r in output[1:])]))

    assert kinds(case.verify()) == {"unexpected-column"}


def test_breaches_past_the_bound_are_counted_and_do_not_hide_other_kinds(case: Case) -> None:
    classes = LISTED_PER_KIND_MAX + 5
    rows = [f'"[0,1]",Any,{"flu"},1,{place}' for place in range(classes)]
    (case.folder / "output.csv").write_text("\n".join([OUTPUT.splitlines()[0], *rows]))
    result = case.verify(original=None, trace=None)

    assert result["breach_count_by_kind"] == {"k": classes, "l": classes}
    assert result["breach_count"] == 2 * classes
    assert len(result["breaches"]) == 2 * LISTED_PER_KIND_MAX


# Breaches that only the witnesses show


@pytest.mark.parametrize("age", ["26", "19", "25.001", "?", "old"])
def test_a_class_that_does_not_cover_an_original_number_is_caught(case: Case, age: str) -> None:
    case.spoil("original.csv", "b,25", f"b,{age}")
    result = case.verify()

    assert kinds(result) == {"outside"}
    assert messages(result) == (
        "row 1 of the original: age is not covered by '[20,25]' of class 10"
    )


@pytest.mark.parametrize("job", ["clerk", "?", "pilot", "Medical"])
def test_a_class_that_does_not_cover_an_original_value_is_caught(case: Case, job: str) -> None:
    case.spoil("original.csv", "doctor", job)

    assert kinds(case.verify()) == {"outside"}


def test_only_the_whole_domain_covers_a_missing_value(case: Case) -> None:
    output = OUTPUT.replace("clerk", "Any")
    (case.folder / "output.csv").write_text(output)
    case.spoil("original.csv", "clerk", "?")

    assert case.verify()["passed"]


@pytest.mark.parametrize(("policy", "passed"), [("clamp", True), ("reject", False)])
def test_a_value_outside_the_domain_is_moved_into_it_only_by_clamp(
    case: Case, policy: str, passed: bool
) -> None:
    case.spoil("dcastle.toml", "domain = [0, 100]", f'domain = [0, 100]\npolicy = "{policy}"')
    (case.folder / "output.csv").write_text(OUTPUT.replace("[40,50]", "[40,100]"))
    case.spoil("original.csv", "d,50", "d,150")

    assert case.verify()["passed"] is passed


def test_two_sensitive_values_swapped_between_classes_are_caught(case: Case) -> None:
    case.spoil("output.csv", "cold,2", "gout,2")
    case.spoil("output.csv", "gout,5", "cold,5")
    result = case.verify()

    assert kinds(result) == {"values"}
    assert {breach["class_id"] for breach in result["breaches"]} == {10, 11}


def test_two_sensitive_values_swapped_between_rows_of_a_class_are_caught(case: Case) -> None:
    case.spoil("output.csv", "flu,1,10", "cold,1,10")
    case.spoil("output.csv", "cold,2,10", "flu,2,10")

    assert kinds(case.verify()) == {"values"}


def test_a_changed_insensitive_value_is_caught(case: Case) -> None:
    case.spoil("output.csv", "gout,6,", "gout,66,")
    result = case.verify()

    assert kinds(result) == {"values"}
    assert messages(result).startswith("the suppressed rows: the values of")


def test_a_row_without_a_trace_line_is_caught(case: Case) -> None:
    case.spoil("trace.csv", "6,s,,,rejected\n", "")
    result = case.verify()

    assert kinds(result) == {"trace-missing"}
    assert messages(result) == "row 6 of the original has no line in the trace"


def test_a_row_with_two_trace_lines_is_caught(case: Case) -> None:
    case.spoil("trace.csv", "6,s,,,rejected\n", "6,s,,,rejected\n6,s,,,rejected\n")

    assert kinds(case.verify()) == {"trace-duplicate"}


@pytest.mark.parametrize("row", ["7", "-1", ""])
def test_a_trace_line_for_a_row_that_does_not_exist_is_caught(case: Case, row: str) -> None:
    with (case.folder / "trace.csv").open("a") as trace:
        trace.write(f"{row},s,,,rejected\n")

    assert kinds(case.verify()) == {"trace-unknown"}


@pytest.mark.parametrize("line", ["6,s,,,lost", "6,s,,11,rejected", "6,s,,,published"])
def test_a_trace_line_that_contradicts_itself_is_caught(case: Case, line: str) -> None:
    case.spoil("trace.csv", "6,s,,,rejected", line)

    assert kinds(case.verify()) == {"trace-outcome"}


def test_a_published_row_that_is_there_twice_is_caught(case: Case) -> None:
    case.spoil("output.csv", '"[40,50]",clerk,flu,4,11\n', '"[40,50]",clerk,flu,4,11\n' * 2)
    result = case.verify()

    assert kinds(result) == {"count", "values"}
    assert "class 11: 2 rows in the trace, 3 in the output" in messages(result)


def test_a_rejected_row_that_is_published_is_caught(case: Case) -> None:
    with (case.folder / "output.csv").open("a") as output:
        output.write('"[0,100]",Any,gout,7,\n')

    assert kinds(case.verify()) == {"count", "values"}


def test_a_suppressed_row_that_vanished_is_caught(case: Case) -> None:
    case.spoil("output.csv", '"[0,100]",Any,gout,6,\n', "")
    result = case.verify()

    assert "the suppressed rows: 1 row in the trace, 0 in the output" in messages(result)


def test_a_class_that_only_the_trace_knows_is_caught(case: Case) -> None:
    case.spoil("trace.csv", "5,s,5,,suppressed", "5,s,5,12,published")
    result = case.verify()

    assert "class 12: 1 row in the trace, 0 in the output" in messages(result)


def test_the_trace_alone_shows_a_wrong_count_but_no_persons(case: Case) -> None:
    case.spoil("trace.csv", "2,s,2,10,published", "2,s,2,11,published")
    result = case.verify(original=None)

    assert (kinds(result), result["k_counts"]) == ({"count"}, "rows")


def test_without_a_trace_more_rows_than_the_original_has_are_caught(case: Case) -> None:
    lines = ORIGINAL.splitlines(keepends=True)
    (case.folder / "original.csv").write_text("".join(lines[:5]))
    result = case.verify(trace=None)

    assert "the output has 6 rows, the original only 4" in messages(result)


def test_without_a_trace_a_sensitive_value_that_the_original_lacks_is_caught(case: Case) -> None:
    case.spoil("output.csv", "cold,2", "gout,2")
    case.spoil("original.csv", "gout,7", "cold,7")
    result = case.verify(trace=None)

    assert kinds(result) == {"values"}
    assert messages(result) == "the output has 1 row more with 'gout' than the original"


def test_messages_about_the_original_never_show_its_values(case: Case) -> None:
    case.spoil("original.csv", "b,25,doctor,cold", "b,77,pilot,scurvy")
    result = case.verify()

    assert kinds(result) == {"outside", "values"}
    assert not any(word in json.dumps(result) for word in ("77", "pilot", "scurvy"))


# What cannot be audited


def refused(case: Case, *options: str, output: str = "output.csv") -> tuple[int, str]:
    code, out, err = case.run(*options, output=output)
    assert not out
    return code, err


def test_a_file_that_is_not_there_is_a_bad_argument(case: Case) -> None:
    code, err = refused(case, output="nowhere.csv")

    assert (code, "nowhere.csv" in err) == (4, True)


def test_every_fault_of_the_schema_is_named(case: Case) -> None:
    case.spoil("dcastle.toml", "k = 2", 'k = "two"')
    case.spoil("dcastle.toml", "domain = [0, 100]", "domain = [100, 0]")
    case.spoil("job.csv", "doctor;Medical;Any", "doctor;Medical;All")
    code, err = refused(case)

    assert code == 4
    assert "[privacy] k must be a whole number" in err
    assert "attribute 'age': domain must be two finite numbers" in err
    assert "attribute 'job': 'Medical' stands under 'Any' and under 'All'" in err
    assert "attribute 'job': 2 roots, among them 'Any' and 'All'" in err


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("[privacy]", "[privacy", "not valid TOML"),
        ('kind = "numeric"', "", "kind must be numeric or categorical"),
        ('role = "insensitive"', 'role = "other"', "role must be one of"),
        ('role = "insensitive"', 'role = "sensitive"', "more than one attribute is sensitive"),
        ('role = "sensitive"', 'role = "insensitive"', "l is 2, but no attribute is sensitive"),
        ('hierarchy = "job.csv"', 'hierarchy = "gone.csv"', "cannot read hierarchy"),
        ('hierarchy = "job.csv"', "", "needs a hierarchy or values"),
        ('hierarchy = "job.csv"', "values = []", "the hierarchy is empty"),
        ('hierarchy = "job.csv"', "hierarchy = { Any = { Office = 5 } }", "neither a table nor a"),
        ('name = "visit"', "", "attribute 4 has no name"),
        ('column = "pid"', "column = 1", "column must be a string"),
        ("[input]", '[input]\ndelimiter = "::"', "delimiter must be a single character"),
        ('missing = ["", "?"]', 'missing = "?"', "missing must be an array"),
        ('[person]\ncolumn = "pid"', "person = 1", "[person] is not a table"),
    ],
)
def test_a_fault_of_the_schema_is_named(case: Case, old: str, new: str, reason: str) -> None:
    if new == "person = 1":
        case.spoil("dcastle.toml", "[privacy]", f"{new}\n[privacy]")
        new = ""
    case.spoil("dcastle.toml", old, new)
    code, err = refused(case)

    assert (code, reason in err) == (4, True), err


def test_a_publication_that_lacks_columns_is_refused_with_their_names(case: Case) -> None:
    (case.folder / "output.csv").write_text("age,illness,class_id\n")
    code, err = refused(case)

    assert (code, err) == (1, "dcastle: the output lacks 'job', 'visit'\n")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_an_original_that_lacks_columns_is_refused_with_their_names(
    case: Case, suffix: str
) -> None:
    original = case.folder / f"raw.{suffix}"
    write = {"csv": write_semicolons, "jsonl": write_jsonl, "parquet": write_parquet}[suffix]
    write(ORIGINAL.replace("age,job", "years,work"), original)
    code, err = refused(case, "--original", str(original))

    assert (code, err) == (1, f"dcastle: {original}: lacks the column 'age', 'job'\n")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("o.csv", b"", "has no header line"),
        ("o.csv", OUTPUT.encode() + b"1,2\n", "Expected 5 columns, got 2"),
        ("o.csv", b"age,job,job,illness,visit,class_id\n", "more than one column 'job'"),
        ("o.csv.gz", b"not gzip", "cannot be read"),
        ("o.jsonl", b"{}\n", "o.jsonl:1: not a JSON object"),
        ("o.jsonl", b'{"job": "Any", "job": "nurse"}\n', "each name once"),
        ("o.parquet", b"not parquet", "cannot be read"),
    ],
)
def test_a_publication_that_cannot_be_read_is_one_line(
    case: Case, name: str, content: bytes, reason: str
) -> None:
    (case.folder / name).write_bytes(content)
    code, err = refused(case, output=name)

    assert (code, reason in err, err.count("\n")) == (1, True, 1), err


def test_a_trace_that_cannot_be_read_is_one_line(case: Case) -> None:
    case.spoil("trace.csv", "0,s,0,10", "zero,s,0,10")
    code, err = refused(case, "--trace", str(case.folder / "trace.csv"))

    assert (code, "trace.csv" in err, err.count("\n")) == (1, True, 1)


# The readable report


def test_the_report_ends_in_passed_and_names_the_smallest_class(case: Case) -> None:
    code, out, _ = case.run("--worst", "1")

    assert code == 0
    assert out.rstrip().endswith("PASSED")
    assert "class 11: 2 rows, 2 values; age [40,50], job clerk" in out
    assert "class 10" not in out


def test_the_report_ends_in_the_kinds_of_breach(case: Case) -> None:
    case.spoil("output.csv", "gout,5", "flu,5")
    code, out, _ = case.run()

    assert code == 1
    assert "class 11 has 1 of l=2 values of 'illness'" in out
    assert out.rstrip().endswith("BREACH: 1 l")
