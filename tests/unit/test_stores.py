"""The generated *stores* stream: repeatable, in order of time, and shaped like a real one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import Project, parse_project
from core.schema import Kind
from scripts.datasets import registry, stores_habits, stores_town
from scripts.datasets.stores import BLOCK_ROWS, SCHEMA, default_customers, generate

ROWS = 30_000


def table(rows: int, **options: int) -> pa.Table:
    return pa.Table.from_batches(generate(rows, **options), schema=SCHEMA)


@pytest.fixture(scope="module")
def visits() -> pa.Table:
    return table(ROWS)


@pytest.fixture(scope="module")
def project() -> Project:
    ready = registry.resolve("stores")
    return parse_project(ready.schema_text(), file="stores.toml", read_file=ready.read_file)


def test_the_same_seed_gives_the_same_stream() -> None:
    assert table(5_000, seed=7).equals(table(5_000, seed=7))


def test_another_seed_gives_another_stream() -> None:
    assert not table(5_000, seed=7).equals(table(5_000, seed=8))


@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(0, 3_000),
    stores=st.integers(1, 40),
    customers=st.integers(1, 500),
    batch_rows=st.integers(1, 4_000),
)
def test_a_shorter_stream_is_the_beginning_of_a_longer_one(
    rows: int, stores: int, customers: int, batch_rows: int
) -> None:
    longer = table(3_000, stores=stores, customers=customers)
    shorter = table(rows, stores=stores, customers=customers, batch_rows=batch_rows)
    assert shorter.num_rows == rows
    assert shorter.equals(longer.slice(0, rows))


def test_a_stream_goes_on_past_the_first_block_as_it_began() -> None:
    rows = BLOCK_ROWS + 1_000
    longer = table(2 * BLOCK_ROWS, customers=2_000)
    assert table(rows, customers=2_000, batch_rows=999).equals(longer.slice(0, rows))
    assert longer.slice(0, 1_000) != longer.slice(BLOCK_ROWS, 1_000)


def test_no_batch_is_larger_than_asked() -> None:
    sizes = [batch.num_rows for batch in generate(2_500, batch_rows=1_000)]
    assert sizes == [1_000, 1_000, 500]


def test_customers_grow_with_the_rows_and_then_with_their_square_root() -> None:
    assert default_customers(10) == 1_000
    assert default_customers(100_000) == 40_000
    assert default_customers(1_000_000) == 126_491


def test_rows_are_in_the_order_of_time_within_each_day(visits: pa.Table) -> None:
    hours = visits["hour"].to_numpy()
    days = 1 + int((np.diff(hours) < 0).sum())
    weeks = ROWS / (default_customers(ROWS) * stores_habits.VISITS_PER_WEEK)
    assert days == pytest.approx(6 * weeks, abs=1)


def test_persons_come_back_and_shop_at_several_stores(visits: pa.Table) -> None:
    by_customer = visits.group_by("customer").aggregate(
        [("store", "count"), ("store", "count_distinct"), ("age", "count_distinct")]
    )
    count = by_customer["store_count"].to_numpy()
    stores = by_customer["store_count_distinct"].to_numpy()
    assert (count > 1).mean() > 0.5
    assert (stores > 1).mean() > 0.2
    assert stores.max() >= 4
    assert by_customer["age_count_distinct"].to_numpy().max() == 1


def test_visits_are_heavy_tailed(visits: pa.Table) -> None:
    count = np.sort(visits["customer"].value_counts().field("counts").to_numpy())
    ranks = np.arange(1, len(count) + 1)
    gini = ((2 * ranks - len(count) - 1) @ count) / (len(count) * count.sum())
    assert 0.4 < gini < 0.7
    assert count[-1] > 10 * np.median(count)


def test_stores_and_product_groups_are_skewed(visits: pa.Table) -> None:
    stores = shares(visits, "store")
    assert len(stores) == 8
    assert stores[0] > 4 * stores[-1]
    groups = shares(visits, "product_group")
    assert 0.2 < groups[0] < 0.45
    assert groups[-1] < 0.03


def test_neighbours_shop_at_the_same_store(visits: pa.Table) -> None:
    by_area = visits.group_by(["postcode", "store"]).aggregate([("age", "count")]).to_pylist()
    most: dict[str, int] = {}
    for row in by_area:
        most[row["postcode"]] = max(most.get(row["postcode"], 0), row["age_count"])
    assert sum(most.values()) / ROWS > 0.5


def test_pensioners_come_in_the_morning_and_pay_cash(visits: pa.Table) -> None:
    age, hour = visits["age"].to_numpy(), visits["hour"].to_numpy()
    cash = np.array(visits["payment"].to_pylist()) == "cash"
    assert np.median(hour[age >= 65]) < 12 < np.median(hour[age < 65])
    assert cash[age >= 65].mean() > 2 * cash[age < 65].mean()


def test_baby_goods_are_bought_where_children_live(visits: pa.Table) -> None:
    buyers = [row["household"] for row in visits.to_pylist() if row["product_group"] == "baby"]
    children = [name for name in buyers if name in ("single-parent", "couple-with-children")]
    assert len(children) > 0.8 * len(buyers)


def test_every_value_is_in_the_ready_schema_and_every_leaf_occurs(
    visits: pa.Table, project: Project
) -> None:
    assert set(visits.column_names) == {
        *(attribute.name for attribute in project.schema.attributes),
        project.schema.person,
    }
    for attribute in project.schema.attributes:
        values = visits[attribute.name].unique().to_pylist()
        if attribute.kind is Kind.NUMERIC:
            assert attribute.domain == (min(values), max(values))
        elif attribute.hierarchy:
            assert set(values) == set(attribute.hierarchy.leaves)


def test_the_ready_schema_is_what_the_generator_draws_from(project: Project) -> None:
    leaves = {a.name: set(a.hierarchy.leaves) for a in project.schema.attributes if a.hierarchy}
    assert leaves == {
        "postcode": set(stores_town.AREAS),
        "household": set(stores_habits.HOUSEHOLDS),
        "payment": set(stores_habits.PAYMENTS),
        "product_group": set(stores_habits.PRODUCT_GROUPS),
    }


def test_the_ready_settings_are_those_of_the_demo(project: Project) -> None:
    parameters = project.parameters
    assert (parameters.k, parameters.l, parameters.delay_tuples) == (20, 3, 500)


def shares(visits: pa.Table, column: str) -> list[float]:
    counts = visits[column].value_counts().field("counts").to_numpy()
    return sorted((counts / visits.num_rows).tolist(), reverse=True)
