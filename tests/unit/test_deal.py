"""Dealing: every row of an input is a record at one site, or rejected with a reason."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from core.config import Project, parse_project
from core.encode import text_codes
from core.errors import ConfigurationError, DataError
from core.events import SUPPRESSED, Classes
from scripts.datasets.registry import resolve
from scripts.simulation.deal import Dealing, deal
from scripts.simulation.output import lost_records, write_merged, write_trace
from scripts.simulation.plan import Plan
from scripts.simulation.result import Merged
from site_node.render import Renderer
from site_node.sink import Sink
from site_node.trace import DeadLetters, Trace

TOML = """
[privacy]
k = 2
delay_tuples = 10

[person]
column = "pid"

[[attribute]]
name = "age"
role = "quasi-identifier"
kind = "numeric"
domain = [0, 100]

[[attribute]]
name = "ill"
role = "sensitive"

[[attribute]]
name = "note"
role = "insensitive"
"""
NAMES = ("pid", "age", "ill", "note", "town")
ROWS = [
    (f"p{n % 7}", n % 90, f"i{n % 4}", f"n{n}", ("Ulm", "Bonn", "Kiel")[n % 3]) for n in range(60)
]


def project(*, person: bool = True) -> Project:
    text = TOML if person else TOML.replace('[person]\ncolumn = "pid"\n', "")

    def nothing(name: str) -> str:
        raise OSError(name)

    return parse_project(text, file="s.toml", read_file=nothing)


def csv_text(rows: list[tuple[Any, ...]] = ROWS) -> str:
    return "".join(f"{','.join(map(str, row))}\n" for row in [NAMES, *rows])


@pytest.fixture
def dealt(tmp_path: Path) -> Callable[..., Dealing]:
    """Deal what is written to a file."""

    def run(
        text: str | None = None, *, person: bool = True, name: str = "", **plan: Any
    ) -> Dealing:
        file = tmp_path / (name or "in.csv")
        if not name:
            file.write_text(csv_text() if text is None else text)
        letters = DeadLetters(str(tmp_path / "letters.jsonl"))
        dealing = deal(project(person=person), resolve(str(file)), Plan(**plan), letters)
        letters.commit()
        return dealing

    return run


def test_rows_are_dealt_in_turn(dealt: Callable[..., Dealing]) -> None:
    dealing = dealt(sites=4)
    assert dealing.dealt.names == ("site-1", "site-2", "site-3", "site-4")
    assert dealing.dealt.site.tolist() == [n % 4 for n in range(60)]
    assert dealing.position.tolist() == [n // 4 for n in range(60)]
    assert dealing.dealt.row.tolist() == list(range(60))
    assert len(dealt().dealt.names) == 8


def test_a_column_names_the_sites_in_the_order_they_appear(dealt: Callable[..., Dealing]) -> None:
    dealing = dealt(site_column="town")
    assert dealing.dealt.names == ("Ulm", "Bonn", "Kiel")
    assert dealing.dealt.site.tolist() == [n % 3 for n in range(60)]
    assert dealing.sites(np.array([2, 0])).to_pylist() == ["Kiel", "Ulm"]
    assert dealt(site_column="town", sites=3).dealt.names == ("Ulm", "Bonn", "Kiel")


def test_a_number_may_name_a_site(dealt: Callable[..., Dealing]) -> None:
    assert dealt(site_column="age").dealt.names[:3] == ("0", "1", "2")


def test_sites_that_contradict_the_column_are_refused(dealt: Callable[..., Dealing]) -> None:
    with pytest.raises(ConfigurationError, match="--sites is 4, but column 'town' names 3 sites"):
        dealt(site_column="town", sites=4)


def test_too_many_sites_are_refused(dealt: Callable[..., Dealing]) -> None:
    rows = [("p", 1, "i", "n", f"t{n}") for n in range(1025)]
    with pytest.raises(ConfigurationError, match="'town' names more than 1,024 sites"):
        dealt(csv_text(rows), site_column="town")


def test_a_row_that_names_no_site_is_rejected(
    dealt: Callable[..., Dealing], tmp_path: Path
) -> None:
    dealing = dealt(csv_text([*ROWS, ("p", 1, "i", "n", " ")]), site_column="town")
    assert dealing.rejected == [60]
    assert dealing.rejected_site == [""]
    (letter,) = map(json.loads, (tmp_path / "letters.jsonl").read_text().splitlines())
    assert (letter["row"], letter["attribute"], letter["reason"]) == (60, "town", "missing value")


def test_a_column_that_is_not_there_is_named(dealt: Callable[..., Dealing]) -> None:
    with pytest.raises(DataError, match="no column 'shop'"):
        dealt(site_column="shop")


def test_a_hash_keeps_a_person_at_one_site(dealt: Callable[..., Dealing]) -> None:
    dealing = dealt(sites=3, way="hash")
    by_person = [set(dealing.dealt.site[n::7].tolist()) for n in range(7)]
    assert all(len(sites) == 1 for sites in by_person)
    assert len(set.union(*by_person)) > 1
    code = text_codes(pa.array(["p0"])).view(np.uint64)[0]
    assert by_person[0] == {int(code % 3)}


def test_without_persons_the_hash_is_of_the_row(dealt: Callable[..., Dealing]) -> None:
    dealing = dealt(sites=3, way="hash", person=False)
    codes = text_codes(pa.array([str(n) for n in range(60)])).view(np.uint64)
    assert dealing.dealt.site.tolist() == (codes % np.uint64(3)).tolist()
    assert len(np.unique(dealing.dealt.records.person)) == 60


def test_rejected_rows_were_somewhere(dealt: Callable[..., Dealing]) -> None:
    text = csv_text([*ROWS[:5], ("p", "old", "i", "n", "Bonn"), *ROWS[5:9]]) + "p,1\n"
    by_turn = dealt(text, sites=4)
    # Rows that cannot be taken apart come first.
    assert (by_turn.rejected, by_turn.rejected_site) == ([10, 5], ["site-3", "site-2"])
    assert by_turn.dealt.row.tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert by_turn.dealt.site.tolist() == [0, 1, 2, 3, 0, 2, 3, 0, 1]
    assert dealt(text, site_column="town").rejected_site == [None, "Bonn"]
    assert dealt(text, sites=4, way="hash").rejected_site == [None, None]
    hashed = dealt(text, sites=4, way="hash", person=False)
    assert all(name in hashed.dealt.names for name in hashed.rejected_site)
    assert by_turn.summary.rows == 11
    assert sum(by_turn.summary.rejected.values()) == 2


def test_a_set_is_repeated_in_a_new_order_each_time(dealt: Callable[..., Dealing]) -> None:
    dealing = dealt(repeat_to=150, sites=4, seed=3)
    rows = dealing.dealt.row
    assert sorted(rows[:60]) == sorted(rows[60:120]) == list(range(60))
    assert rows[:60].tolist() != rows[60:120].tolist()
    assert dealing.dealt.site.tolist() == [n % 4 for n in range(150)]
    assert rows.tolist() == dealt(repeat_to=150, sites=4, seed=3).dealt.row.tolist()
    assert rows.tolist() != dealt(repeat_to=150, sites=4, seed=4).dealt.row.tolist()
    assert len(np.unique(dealing.dealt.records.person)) == 7
    notes = dealing.kept(np.arange(150))["note"].to_pylist()
    assert notes == [f"n{row}" for row in rows.tolist()]
    alone = dealt(repeat_to=150, person=False).dealt
    assert len(np.unique(alone.records.person)) == 150
    once = dealt().dealt.dataset_bytes
    assert alone.dataset_bytes == round(once * 150 / 60)


def test_a_row_repeated_goes_to_the_site_it_names(dealt: Callable[..., Dealing]) -> None:
    repeated = dealt(repeat_to=100, site_column="town").dealt
    assert (repeated.site == repeated.row % 3).all()


def test_the_size_of_a_csv_is_that_of_its_rows(
    dealt: Callable[..., Dealing], tmp_path: Path
) -> None:
    size = len(csv_text()) - len(csv_text([]))
    assert dealt().dealt.dataset_bytes == size
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(csv_text().encode()))
    assert dealt(name="x.csv.gz").dealt.dataset_bytes == size


def test_the_size_of_other_formats_is_that_of_a_csv(
    dealt: Callable[..., Dealing], tmp_path: Path
) -> None:
    table = pa.table({name: [row[at] for row in ROWS] for at, name in enumerate(NAMES)})
    nested = table.append_column("list", pa.array([[1, 2]] * 60))
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    pa.parquet.write_table(nested, tmp_path / "nested.parquet")
    pa.csv.write_csv(table, tmp_path / "same.csv", pa.csv.WriteOptions(include_header=False))
    size = (tmp_path / "same.csv").stat().st_size
    assert dealt(name="x.parquet").dealt.dataset_bytes == size
    assert dealt(name="nested.parquet").dealt.dataset_bytes == size + 60 * len(',"[1, 2]"')
    lines = [json.dumps(dict(zip(NAMES, row, strict=True))) for row in ROWS]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    assert dealt(name="x.jsonl").dealt.dataset_bytes == len(csv_text()) - len(csv_text([]))


def test_a_named_set_has_its_own_sites_or_as_many_as_asked_for(tmp_path: Path) -> None:
    stores = resolve("stores")
    ready = parse_project(stores.schema_text(), file="s", read_file=stores.read_file)
    letters = DeadLetters(str(tmp_path / "letters"))
    own = deal(ready, stores, Plan(site_column="store", rows=3_000), letters)
    assert sorted(own.dealt.names) == [f"store-{n:02d}" for n in range(1, 9)]
    fewer = deal(ready, stores, Plan(site_column="store", rows=3_000, sites=3), letters)
    assert sorted(fewer.dealt.names) == [f"store-{n:02d}" for n in range(1, 4)]
    table = pa.Table.from_batches(stores.batches(3_000))
    pa.csv.write_csv(table, tmp_path / "all.csv", pa.csv.WriteOptions(include_header=False))
    assert own.dealt.dataset_bytes == (tmp_path / "all.csv").stat().st_size


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (csv_text([]), "no rows: nothing to simulate"),
        (csv_text([("p", "old", "i", "n", "Ulm")]), "none of the 1 rows could be used"),
    ],
)
def test_nothing_to_simulate_is_said(dealt: Callable[..., Dealing], text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        dealt(text)


def merged(record: list[int], row: list[int]) -> Merged:
    return Merged(
        record=np.array(record),
        row=np.array(row),
        classes=Classes(
            class_id=np.array([70, 30]),
            low=np.array([[0.0], [5.0]]),
            high=np.array([[10.0], [20.0]]),
            node=np.zeros((2, 0), np.int32),
        ),
    )


def test_the_merged_stream_and_its_trace_are_in_the_order_of_publication(
    dealt: Callable[..., Dealing], tmp_path: Path
) -> None:
    rows = [
        ("p1", 3, "i1", "a", "Ulm"),
        ("p2", "old", "i1", "b", "Ulm"),
        ("p3", 7, "i2", "c", "X,Y"),
    ]
    rows += [("p4", 8, "i3", "d", "Ulm"), ("p5", 9, "i3", "e", "Ulm")]
    text = csv_text(rows).replace("X,Y", '"X,Y"')
    dealing = dealt(text, site_column="town")
    result = merged([2, 0, 1], [1, SUPPRESSED, 0])
    assert lost_records(result, len(dealing.dealt)).tolist() == [3]
    with Sink(str(tmp_path / "out.csv"), "csv", Renderer(project().schema)) as sink:
        write_merged(result, dealing, sink)
    trace = Trace(str(tmp_path / "trace.csv"))
    write_trace(result, dealing, trace)
    trace.commit()
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        "age,ill,note,class_id",
        '"[5,20]",i3,d,30',
        '"[0,100]",i1,a,',
        '"[0,10]",i2,c,70',
    ]
    assert (tmp_path / "trace.csv").read_text().splitlines() == [
        "row,site,position,class_id,outcome",
        "1,Ulm,,,rejected",
        "4,Ulm,,,rejected",
        "3,Ulm,1,30,published",
        "0,Ulm,0,,suppressed",
        '2,"X,Y",0,70,published',
    ]
