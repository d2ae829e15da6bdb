"""`dcastle init`: whatever the data, the draft is a dcastle.toml that can be read."""

from __future__ import annotations

import gzip
import io
import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config import Project, parse_project
from core.errors import DataError
from core.schema import Attribute, Kind, Role
from scripts._init_sample import Sample
from scripts.cli import run
from scripts.init import draft

DATA = Path(os.environ.get("DCASTLE_DATA", Path(__file__).parents[3] / "shared" / "data"))

NUMBERS = {"k": 5, "l": 1, "delay_tuples": 100}

VISITS = (
    "patient_id,name,age,sex,zip,note,diagnosis\n"
    "p1,Ann A,30,f,02139,came at noon,flu\n"
    "p2,Bob B,41.5,m,02140,was late,ulcer\n"
    "p1,Ann A,30,f,02139,came again,flu\n"
    "p3,Cyd C,?,f,02139,left early,asthma\n"
)


def no_file(name: str) -> str:
    raise AssertionError(f"a draft names no files, but this one has {name}")


def read_draft(text: str) -> Project:
    return parse_project(text, file="draft", read_file=no_file)


def draft_of(columns: dict[str, list[str]], **options: str) -> Project:
    sample = Sample(table=pa.table(columns), delimiter=",")
    person, sensitive = options.get("person"), options.get("sensitive")
    return read_draft(draft(sample, "d", person=person, sensitive=sensitive, numbers=NUMBERS))


def attributes_of(project: Project) -> dict[str, Attribute]:
    return {attribute.name: attribute for attribute in project.schema.attributes}


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text(VISITS)
    return path


def init(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> Project:
    code = run(["init", *map(str, arguments)])
    captured = capfd.readouterr()
    assert code == 0, captured.err
    return read_draft(captured.out)


def test_the_roles_of_a_small_file_are_guessed(
    visits: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    project = init(capfd, visits)
    roles = {name: each.role.value for name, each in attributes_of(project).items()}
    assert roles == {
        "name": "identifier",
        "age": "quasi-identifier",
        "sex": "quasi-identifier",
        "zip": "quasi-identifier",
        "note": "identifier",
        "diagnosis": "quasi-identifier",
    }
    assert project.schema.person == "patient_id"
    assert project.input.delimiter == ","
    assert project.input.missing == ("", "?")


def test_numbers_get_the_domain_seen_and_codes_with_a_leading_zero_are_no_numbers(
    visits: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = attributes_of(init(capfd, visits))
    assert found["age"].domain == (30.0, 41.5)
    assert found["zip"].hierarchy is not None
    assert found["zip"].hierarchy.names == ("02139", "02140", "*")


def test_the_draft_says_that_a_domain_should_be_public_and_that_roles_are_guesses(
    visits: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(visits)]) == 0
    text = capfd.readouterr().out
    assert "Set bounds that are public knowledge instead" in text
    assert "Every role is a guess" in text
    assert "# 25.0% are missing" in text
    assert '# role = "sensitive"' in text


def test_the_flags_go_into_the_draft(visits: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flags = ["--person", "name", "--sensitive", "diagnosis"]
    project = init(capfd, visits, *flags, "--k", "4", "--l", "3", "--delay-tuples", "9")
    assert (project.parameters.k, project.parameters.l) == (4, 3)
    assert project.parameters.delay_tuples == 9
    assert project.schema.person == "name"
    assert project.schema.sensitive is not None
    assert project.schema.sensitive.name == "diagnosis"
    assert attributes_of(project)["patient_id"].role is Role.IDENTIFIER


def test_only_the_first_rows_are_looked_at(visits: Path, capfd: pytest.CaptureFixture[str]) -> None:
    project = init(capfd, visits, "--rows", "1")
    assert attributes_of(project)["age"].domain == (30.0, 31.0)


def as_csv(delimiter: str) -> Callable[[list[dict[str, object]]], bytes]:
    def write(rows: list[dict[str, object]]) -> bytes:
        lines = [delimiter.join(rows[0])]
        lines += [delimiter.join(map(str, row.values())) for row in rows]
        return "\r\n".join(lines).encode("utf-8-sig")

    return write


def as_jsonl(rows: list[dict[str, object]]) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def as_parquet(rows: list[dict[str, object]]) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize(
    ("name", "write", "delimiter"),
    [
        ("d.csv", as_csv(","), ","),
        ("d.csv", as_csv(";"), ";"),
        ("d.tsv", as_csv("\t"), "\t"),
        ("d", as_csv("|"), "|"),
        ("d.jsonl", as_jsonl, None),
        ("d.ndjson", as_jsonl, None),
        ("d.parquet", as_parquet, None),
    ],
)
def test_every_format_gives_the_same_schema(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    name: str,
    write: Callable[[list[dict[str, object]]], bytes],
    delimiter: str | None,
    gzipped: bool,
) -> None:
    rows: list[dict[str, object]] = [
        {"age": 20 + n, "city": "Ulm" if n % 2 else "Bonn, \u00f6"} for n in range(10)
    ]
    if delimiter == ",":
        rows = [{**row, "city": str(row["city"]).replace(",", "")} for row in rows]
    content = write(rows)
    path = tmp_path / (name + ".gz" if gzipped else name)
    path.write_bytes(gzip.compress(content) if gzipped else content)
    project = init(capfd, path)
    age, city = project.schema.attributes
    assert (age.name, age.kind, age.domain) == ("age", Kind.NUMERIC, (20.0, 29.0))
    assert city.hierarchy is not None
    assert len(city.hierarchy.leaves) == 2
    assert project.input.delimiter == delimiter


def test_decimal_commas_do_not_pass_for_delimiters(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a;b;c\n1,5;2,5;3\n1,5;2,5;4\n")
    assert init(capfd, path).input.delimiter == ";"


@pytest.mark.parametrize(
    ("column", "role", "kind"),
    [
        ({"id": [str(n) for n in range(40)]}, Role.IDENTIFIER, None),
        ({"e-mail": ["a@b"] * 40}, Role.IDENTIFIER, None),
        ({"lastName": ["Li", "Wu"] * 20}, Role.IDENTIFIER, None),
        ({"patient": [f"p{n}" for n in range(40)]}, Role.IDENTIFIER, None),
        ({"typeID": ["1", "2"] * 20}, Role.QUASI_IDENTIFIER, Kind.CATEGORICAL),
        ({"product_name": ["x", "y"] * 20}, Role.QUASI_IDENTIFIER, Kind.CATEGORICAL),
        ({"paid": ["12", "13"] * 20}, Role.QUASI_IDENTIFIER, Kind.NUMERIC),
        ({"essay": [f"t{n}" for n in range(40)]}, Role.IDENTIFIER, None),
        ({"star": ["*", "x"] * 20}, Role.IDENTIFIER, None),
        ({"class_id": ["1", "2"] * 20}, Role.IDENTIFIER, None),
        ({"void": ["", "?"] * 20}, Role.IDENTIFIER, None),
        ({"huge": ["1e300", "-1e300"] * 20}, Role.IDENTIFIER, None),
        ({"big": ["1e17"] * 40}, Role.IDENTIFIER, None),
        ({"one": ["7"] * 40}, Role.QUASI_IDENTIFIER, Kind.NUMERIC),
    ],
)
def test_a_column_is_guessed_by_its_name_and_values(
    column: dict[str, list[str]], role: Role, kind: Kind | None
) -> None:
    found = attributes_of(draft_of({**column, "height": ["1", "2"] * 20}))
    (name,) = column
    assert found[name].role is role
    assert kind is None or found[name].kind is kind


def test_text_with_many_values_is_dropped() -> None:
    words = [f"w{n}" for n in range(101)] * 2
    found = attributes_of(draft_of({"word": words, "height": ["1", "2"] * 101}))
    assert found["word"].role is Role.IDENTIFIER


@pytest.mark.parametrize("name", ["patient_nbr", "CustomerID", "pid", "User Id", "person"])
def test_a_column_named_like_a_person_with_repeats_is_the_person(name: str) -> None:
    assert draft_of({"age": ["1", "2", "3"], name: ["a", "b", "a"]}).schema.person == name


def test_the_sensitive_column_is_not_taken_for_the_person() -> None:
    project = draft_of({"age": ["1", "2", "3"], "pid": ["a", "b", "a"]}, sensitive="pid")
    assert project.schema.person is None


def test_nested_columns_are_dropped() -> None:
    table = pa.table({"age": [1, 2], "tags": [["a"], ["b"]]})
    sample = Sample(table=table, delimiter=None)
    text = draft(sample, "d", person=None, sensitive=None, numbers=NUMBERS)
    assert attributes_of(read_draft(text))["tags"].role is Role.IDENTIFIER


def test_more_than_64_quasi_identifiers_are_not_drafted() -> None:
    project = draft_of({f"c{n}": ["1", "2"] for n in range(70)})
    assert len(project.schema.quasi_identifiers) == 64
    assert len(project.schema.attributes) == 70


# Surrogates cannot be in a pyarrow string.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
cells = st.one_of(texts, st.floats().map(str), st.integers().map(str), st.sampled_from("ab?"))


@given(st.dictionaries(texts.filter(bool), st.lists(cells, min_size=4, max_size=4), max_size=5))
def test_a_draft_of_any_data_can_be_read_and_keeps_the_names(
    columns: dict[str, list[str]],
) -> None:
    columns = {**columns, "age": ["1", "2", "3", "4"]}
    project = draft_of(columns)
    names = {attribute.name for attribute in project.schema.attributes}
    assert names | {project.schema.person} - {None} == set(columns)


@given(st.lists(texts.filter(bool), min_size=2, max_size=6))
def test_values_of_any_text_are_quoted_right(values: list[str]) -> None:
    table = pa.table({"age": [1.0] * len(values) * 2, "v\\": values * 2})
    sample = Sample(table=table, delimiter=None)
    text = draft(sample, 'a "file"\n', person=None, sensitive=None, numbers=NUMBERS)
    for attribute in tomllib.loads(text)["attribute"]:
        assert set(attribute.get("values", [])) <= set(values)


def test_the_output_file_is_written_but_not_over_another(
    visits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "dcastle.toml"
    assert run(["init", str(visits), "-o", str(target)]) == 0
    first = target.read_text()
    read_draft(first)
    assert run(["init", str(visits), "-o", str(target), "--k", "7"]) == 4
    assert "exists; --force overwrites it" in capfd.readouterr().err
    assert target.read_text() == first
    assert run(["init", str(visits), "-o", str(target), "--k", "7", "--force"]) == 0
    assert read_draft(target.read_text()).parameters.k == 7


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.csv", b"", "is empty"),
        ("d.csv", b"\n \n", "is empty"),
        ("d.csv", b"a,b\n", "has columns but no rows"),
        ("d.csv", b"a,a\n1,2\n", "has several columns named 'a'"),
        ("d.csv", b",\n1,2\n", "has no columns with a name"),
        ("d.csv", b"a,b\n1\n2,3,4\n5,6,7\n", "3 rows do not have 2 fields"),
        ("d.csv", b"a,b\n\xff,1\n", "as CSV: "),
        ("d.csv", b"note\nhello\nworld\n", "no column of 'd.csv' can be a quasi-identifier"),
        ("d.csv.gz", b"a,b\n1,2\n", "cannot read"),
        ("d.jsonl", b"[1, 2]\n", "as JSON lines: "),
        ("d.jsonl", b'{"a": 1}\n{"a": "x"}\n', "as JSON lines: "),
        ("d.parquet", b"PAR1", "as Parquet: "),
    ],
)
def test_data_that_cannot_be_used_is_told_why(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    name: str,
    content: bytes,
    message: str,
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert run(["init", str(path)]) == DataError.exit_code
    captured = capfd.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_path_that_is_no_file_is_told_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(tmp_path / "nix.csv")]) == 1
    assert run(["init", str(tmp_path)]) == 1
    first, second = capfd.readouterr().err.splitlines()
    assert "nix.csv': No such file or directory" in first
    assert second.startswith("dcastle: cannot read")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sensitive", "diagnose"], "--sensitive: there is no column 'diagnose'; did you mean"),
        (["--person", "zzz"], "--person: there is no column 'zzz'; there are patient_id, name"),
        (["--person", "sex", "--sensitive", "sex"], "--person and --sensitive are both 'sex'"),
        (["--k", "1"], "--k is 1, must be at least 2"),
        (["--k", "0"], "--k is 0, must be at least 2"),
        (["--l", "2"], "--l is 2, but no attribute is sensitive"),
        (["--l", "4", "--sensitive", "diagnosis"], "--l is 4, but 'diagnosis' has 3 values"),
        (["--delay-tuples", "9"], "--delay-tuples is 9, but --k is 10"),
        (["--rows", "0"], "0 is not in the range"),
    ],
)
def test_a_wrong_flag_is_told_by_its_name(
    visits: Path, capfd: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert run(["init", str(visits), *flags]) == 4
    captured = capfd.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_rows_of_another_width_and_a_missing_header_are_warned_about(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "d.csv"
    path.write_text("39,Bonn,\n40,Ulm,\n41\n42,Ulm,\n43,Bonn,\n")
    assert run(["init", str(path)]) == 0
    warnings = capfd.readouterr().err
    assert "warning: 1 rows do not have 3 fields" in warnings
    assert "warning: a column without a name was left out" in warnings
    assert "warning: the first line should name the columns, but has '39'" in warnings


def test_the_help_shows_examples(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--help"]) == 0
    assert "\n    dcastle init visits.csv > dcastle.toml\n" in capfd.readouterr().out


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no data under {DATA}")
def test_real_files_give_drafts_that_can_be_read(capfd: pytest.CaptureFixture[str]) -> None:
    diabetes = init(capfd, DATA / "diabetes130" / "diabetic_data.csv.gz", "--sensitive", "diag_1")
    assert diabetes.schema.person == "patient_nbr"
    assert attributes_of(diabetes)["encounter_id"].role is Role.IDENTIFIER
    assert attributes_of(diabetes)["admission_type_id"].kind is Kind.CATEGORICAL
    assert "?" in diabetes.input.missing
    for name in ("nyc-taxi/*.csv", "backblaze/*.csv.gz", "pima/*.csv"):
        (path,) = DATA.glob(name)
        assert init(capfd, path).schema.quasi_identifiers
