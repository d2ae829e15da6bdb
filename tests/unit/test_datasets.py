"""The named data sets: found or clearly missing, read without traps, inside their ready schemas."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from core.config import Project, parse_project
from core.errors import DataError
from core.schema import Kind, Policy
from scripts.datasets import adult, diabetes130, places, registry

FILE_SETS = [name for name, entry in registry.ENTRIES.items() if entry.needs]


def resolve(name: str) -> registry.DataSet:
    """The set, or a skip that says what is missing."""
    try:
        return registry.resolve(name)
    except DataError as error:
        pytest.skip(str(error))


def data_folder() -> Path:
    return resolve("adult").folder


def ready(found: registry.DataSet) -> Project:
    return parse_project(found.schema_text(), file=found.name, read_file=found.read_file)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any data: every place is an empty folder of the test's."""
    monkeypatch.setenv("DCASTLE_DATA", str(tmp_path / "environment"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(places, "_beside_checkout", lambda: [tmp_path / "beside"])
    return tmp_path


def test_the_named_sets_are_those_of_the_design() -> None:
    assert registry.names() == ["stores", "adult", "diabetes130", "taxi", "backblaze", "pima"]


def test_every_set_has_a_ready_schema_beside_its_module() -> None:
    folder = Path(registry.__file__).parent
    assert {path.stem for path in folder.glob("*.toml")} == set(registry.names())


def test_adult_has_the_counts_of_the_papers() -> None:
    folder = data_folder()
    assert adult.load(folder).num_rows == 30_162
    assert adult.load(folder, part="test").num_rows == 15_060
    assert adult.load(folder, part="all").num_rows == 45_222
    assert adult.load(folder, complete_only=False).num_rows == 32_561
    assert adult.load(folder, part="test", complete_only=False).num_rows == 16_281


def test_adult_test_part_is_free_of_its_traps() -> None:
    table = adult.load(data_folder(), part="all")
    assert table.column_names == list(adult.COLUMNS)
    assert set(table["income"].unique().to_pylist()) == {"<=50K", ">50K"}
    assert len(table["native-country"].unique()) == 41
    assert not [v for v in table["occupation"].unique().to_pylist() if v != v.strip()]


def test_adult_keeps_missing_values_visible_when_asked_for_all_rows() -> None:
    table = adult.load(data_folder(), complete_only=False)
    assert table["workclass"].to_pylist().count("?") == 1_836


def test_an_adult_file_that_is_not_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "adult").mkdir()
    (tmp_path / "adult" / "adult.data").write_text("39, State-gov\n")
    with pytest.raises(DataError, match=r"adult\.data.*column"):
        adult.load(tmp_path)


@pytest.mark.parametrize("name", FILE_SETS)
def test_a_set_has_the_rows_and_persons_it_is_listed_with(name: str) -> None:
    found = resolve(name)
    table = pa.Table.from_batches(found.batches())
    assert found.entry is not None
    assert table.num_rows == found.entry.rows
    assert ready(found).schema.person == found.entry.person_column
    if found.entry.person_column:
        assert len(table[found.entry.person_column].unique()) == found.entry.persons


# What lies outside on purpose: how many rows the policy of the attribute has to handle.
OUTSIDE = {
    ("diabetes130", "race"): 2_273,
    ("diabetes130", "diagnosis"): 21,
    ("backblaze", "smart_9_raw"): 7,
}


@pytest.mark.parametrize("name", FILE_SETS)
def test_every_value_is_in_the_ready_schema_or_known_not_to_be(name: str) -> None:
    found = resolve(name)
    project = ready(found)
    table = pa.Table.from_batches(found.batches())
    outside = Counter[tuple[str, str]]()
    for attribute in project.schema.attributes:
        values = table[attribute.name].to_pylist()
        if attribute.domain is not None:
            low, high = attribute.domain
            outside[name, attribute.name] = sum(not low <= value <= high for value in values)
        elif attribute.hierarchy is not None:
            leaves = set(attribute.hierarchy.leaves)
            strangers = [value for value in values if value not in leaves]
            assert set(strangers) <= set(project.input.missing)
            outside[name, attribute.name] = len(strangers)
    assert +outside == {key: count for key, count in OUTSIDE.items() if key[0] == name}


@pytest.mark.parametrize("name", FILE_SETS)
def test_categorical_values_are_strings_and_numeric_ones_numbers(name: str) -> None:
    found = resolve(name)
    batch = next(found.batches(10))
    for attribute in ready(found).schema.attributes:
        type_ = batch.schema.field(attribute.name).type
        if attribute.kind is Kind.NUMERIC:
            assert pa.types.is_integer(type_) or pa.types.is_floating(type_)
        elif attribute.hierarchy is not None:
            assert pa.types.is_string(type_)


def test_adult_is_configured_as_in_the_dcastle_paper() -> None:
    project = ready(resolve("adult"))
    parameters = project.parameters
    assert (parameters.k, parameters.l, parameters.delay_tuples) == (100, 2, 10_000)
    assert {a.name: a.domain for a in project.schema.numeric} == {
        "age": (0, 100),
        "fnlwgt": (0, 1_500_000),
        "education-num": (0, 20),
        "capital-gain": (0, 100_000),
        "capital-loss": (0, 5_000),
        "hours-per-week": (0, 100),
    }
    assert {a.name: len(a.hierarchy.leaves) for a in project.schema.categorical if a.hierarchy} == {
        "education": 16,
        "marital-status": 7,
        "occupation": 14,
        "native-country": 41,
    }
    assert project.schema.sensitive is not None
    assert project.schema.sensitive.name == "workclass"


def test_taxi_trips_are_in_order_of_pickup() -> None:
    table = pa.Table.from_batches(resolve("taxi").batches())
    pickups = table["tpep_pickup_datetime"].to_pylist()
    assert pickups == sorted(pickups)


def test_taxi_zones_are_all_in_the_hierarchy_once() -> None:
    zones, *_ = ready(resolve("taxi")).schema.categorical
    assert zones.hierarchy is not None
    assert sorted(map(int, zones.hierarchy.leaves)) == list(range(1, 266))


def test_a_drive_with_an_impossible_counter_is_clamped() -> None:
    hours, *_ = ready(resolve("backblaze")).schema.numeric
    assert hours.policy is Policy.CLAMP


@pytest.mark.parametrize(
    ("code", "chapter"),
    [
        ("8", "infection"),
        ("249.9", "endocrine"),
        ("250", "diabetes"),
        ("250.83", "diabetes"),
        ("251", "endocrine"),
        ("428", "circulation"),
        ("999", "injury"),
        ("V57", "other-contact"),
        ("E909", "external-cause"),
        ("?", "?"),
    ],
)
def test_a_diagnosis_belongs_to_its_chapter_of_icd_9(code: str, chapter: str) -> None:
    assert diabetes130.chapter(code) == chapter


def test_rows_limits_what_is_read() -> None:
    found = resolve("adult")
    first = pa.Table.from_batches(found.batches(17))
    assert first.equals(pa.Table.from_batches(found.batches()).slice(0, 17))


def test_a_file_is_handed_back_for_the_caller_to_read(tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    file.write_text("age\n1\n")
    found = registry.resolve(str(file))
    assert (found.path, found.toml_path, found.entry) == (file, None, None)
    with pytest.raises(DataError, match="not a named data set"):
        found.batches()
    with pytest.raises(DataError, match="dcastle init"):
        found.schema_text()


def test_a_name_wins_over_a_file_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stores").write_text("")
    monkeypatch.chdir(tmp_path)
    assert registry.resolve("stores").entry is not None
    assert registry.resolve("./stores").entry is None


def test_an_unknown_word_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(DataError, match=r"neither a file nor .* did you mean 'adult'"):
        registry.resolve("adlut")


def test_a_folder_is_not_a_data_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="neither a file"):
        registry.resolve(str(tmp_path))


def test_a_missing_set_says_what_is_missing_where_and_how_to_get_it(nowhere: Path) -> None:
    (nowhere / "named" / "adult").mkdir(parents=True)
    (nowhere / "named" / "adult" / "adult.data").write_text("")
    with pytest.raises(DataError) as caught:
        registry.resolve("adult", nowhere / "named")
    first, *looked, advice = str(caught.value).splitlines()
    assert first == "data set 'adult' is not here"
    assert looked == [
        f"  {nowhere}/named: no adult/hierarchies-tds/adult_tds_workclass.csv",
        f"  {nowhere}/environment: no adult/adult.data",
        f"  {nowhere}/cache/dcastle/data: no adult/adult.data",
        f"  {nowhere}/beside: no adult/adult.data",
    ]
    assert advice == "get it with: dcastle data fetch adult"


def test_a_set_that_is_not_offered_says_why(nowhere: Path) -> None:
    with pytest.raises(DataError, match="UCI withdrew it"):
        registry.resolve("pima")


@pytest.mark.parametrize("place", ["named", "environment", "cache/dcastle/data", "beside"])
def test_a_set_is_found_in_each_place(nowhere: Path, place: str) -> None:
    file = nowhere / place / "pima" / "pima-indians-diabetes.csv"
    file.parent.mkdir(parents=True)
    file.write_text("age\n")
    found = registry.resolve("pima", nowhere / "named")
    assert (found.path, found.folder) == (file, nowhere / place)


def test_an_uncompressed_file_will_do_for_a_compressed_one(nowhere: Path) -> None:
    file = nowhere / "environment" / "diabetes130" / "diabetic_data.csv"
    file.parent.mkdir(parents=True)
    file.write_text("encounter_id,diag_1\n2,V57\n1,428\n")
    table = pa.Table.from_batches(registry.resolve("diabetes130").batches())
    assert table["diagnosis"].to_pylist() == ["circulation", "other-contact"]


def test_the_portable_schema_reads_its_hierarchies_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = resolve("adult")
    monkeypatch.chdir(tmp_path)
    text = found.portable_schema_text()
    project = parse_project(text, file="x", read_file=lambda name: Path(name).read_text())
    assert project.schema.fingerprint == ready(found).schema.fingerprint


def test_no_data_is_committed_with_the_sets() -> None:
    kinds = {path.suffix for path in Path(registry.__file__).parent.iterdir() if path.is_file()}
    assert kinds == {".py", ".toml"}
