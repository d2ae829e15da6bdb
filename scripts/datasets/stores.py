"""The *stores* stream: visits to the shops of a supermarket chain, generated.

It stands in for what no organisation may hand out: persons who come back and shop at several
sites. One row is one visit: the store, the customer's card number, age, postcode area and
household, the hour, the way of payment, and the product group that dominates the basket
(sensitive). Rows are in the order of time, hour by hour through weeks of six open days. All
figures are invented (see `stores_habits` and `stores_town`).

The stream does not depend on its length or on how it is cut into batches: with the same seed,
stores and customers, a shorter stream is the beginning of a longer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scripts.datasets import stores_habits as habits
from scripts.datasets.entry import Entry
from scripts.datasets.stores_town import AREAS, Town, found

Ints = NDArray[np.int64]

SCHEMA: Final = pa.schema(
    [
        ("store", pa.string()),
        ("customer", pa.string()),
        ("age", pa.int64()),
        ("postcode", pa.string()),
        ("household", pa.string()),
        ("hour", pa.int64()),
        ("payment", pa.string()),
        ("product_group", pa.string()),
    ]
)

ROWS_UNLESS_TOLD: Final = 100_000
# Rows are drawn in blocks of this size, each from a generator of its own, whatever the batches are.
BLOCK_ROWS: Final = 65_536
# A weighted choice is one look-up in a table of so many equally likely slots.
SLOTS: Final = 4_096
SECOND_STORE: Final = 0.7  # of the visits away from home, the share made at one's second store

_AREA_NAMES: Final = pa.array(AREAS)
_HOUSEHOLD_NAMES: Final = pa.array(habits.HOUSEHOLDS)
_PAYMENT_NAMES: Final = pa.array(habits.PAYMENTS)
_PRODUCT_NAMES: Final = pa.array(habits.PRODUCT_GROUPS)


def default_customers(rows: int) -> int:
    """How many customers a stream of so many rows has unless told.

    Two for every five rows up to 100,000 rows, then as the square root, because a longer stream
    sees the same people again: 40,000 for 100,000 rows, 126,491 for a million. At least 1,000.
    """
    return max(1_000, min(2 * rows // 5, isqrt(16_000 * rows)))


def generate(
    rows: int,
    *,
    seed: int = 1,
    stores: int = 8,
    customers: int | None = None,
    batch_rows: int = BLOCK_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Yield the first `rows` visits in batches of at most `batch_rows` rows.

    Memory grows with the customers, not with the rows.
    """
    people = default_customers(rows) if customers is None else customers
    town = found(_generator(seed, 0), stores=stores, customers=people)
    tables = _Tables.of(town)
    for block, first in enumerate(range(0, rows, BLOCK_ROWS)):
        visits = _visits(_generator(seed, 1, block), town, tables, first)
        for start in range(0, min(BLOCK_ROWS, rows - first), batch_rows):
            yield visits.slice(start, min(batch_rows, rows - first - start))


def _generator(seed: int, *purpose: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=purpose)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables:
    """Look-up tables of the weighted choices that each visit makes."""

    week_rows: int
    slot_until: NDArray[np.float64]
    group: Ints
    payment: Ints
    product: Ints

    @classmethod
    def of(cls, town: Town) -> _Tables:
        visits = np.diff(town.visits_until[town.group_start])
        demand = habits.week_curves().reshape(-1, len(visits)) * visits
        by_slot = demand.sum(axis=1)
        return cls(
            week_rows=max(1, round(len(town.age) * habits.VISITS_PER_WEEK)),
            slot_until=np.cumsum(by_slot) / by_slot.sum(),
            group=_slots(demand),
            payment=_slots(habits.PAYMENT_BY_AGE),
            product=_slots(habits.product_weights().reshape(-1, len(habits.PRODUCT_GROUPS))),
        )


def _slots(weights: NDArray[np.float64]) -> Ints:
    """Make a table [row, slot] that holds each column in proportion to its weight in the row."""
    until = np.cumsum(weights, axis=1)
    middle = (np.arange(SLOTS) + 0.5) / SLOTS
    return np.array([np.searchsorted(steps, middle * steps[-1], side="right") for steps in until])


def _visits(rng: np.random.Generator, town: Town, tables: _Tables, first: int) -> pa.RecordBatch:
    """Draw one block of visits, rows `first` to `first + BLOCK_ROWS` of the stream."""
    slot = _slot_of_week(tables, first)
    hour = slot % habits.HOURS + habits.HOUR_FIRST
    customer = _customers(rng, town, tables.group[slot, _draw_slot(rng)])
    age = town.age[customer]
    household = town.household[customer]
    band = np.digitize(age, habits.AGE_BAND_STARTS)
    hour_band = np.digitize(hour, habits.HOUR_BAND_STARTS)
    occasion = (hour_band * habits.AGE_BANDS + band) * len(habits.HOUSEHOLDS) + household
    product = tables.product[occasion, _draw_slot(rng)]
    by_habit = rng.random(BLOCK_ROWS) < habits.PAYMENT_HABIT
    payment = np.where(by_habit, town.payment[customer], tables.payment[band, _draw_slot(rng)])
    columns = [
        _named(town.store_names, _stores(rng, town, customer)),
        _named(town.customer_names, customer),
        pa.array(age),
        _named(_AREA_NAMES, town.area[customer]),
        _named(_HOUSEHOLD_NAMES, household),
        pa.array(hour),
        _named(_PAYMENT_NAMES, payment),
        _named(_PRODUCT_NAMES, product),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _slot_of_week(tables: _Tables, first: int) -> Ints:
    """Find each row's open hour: weeks are alike in size, hours as long as their demand."""
    position = np.arange(first, first + BLOCK_ROWS) % tables.week_rows
    return np.searchsorted(tables.slot_until, (position + 0.5) / tables.week_rows)


def _draw_slot(rng: np.random.Generator) -> NDArray[np.int16]:
    return rng.integers(SLOTS, size=BLOCK_ROWS, dtype=np.int16)


def _customers(rng: np.random.Generator, town: Town, group: Ints) -> Ints:
    """Draw a customer of each group, frequent ones more often."""
    low = town.visits_until[town.group_start[group]]
    high = town.visits_until[town.group_start[group + 1]]
    draw = low + rng.random(BLOCK_ROWS) * (high - low)
    customer = np.searchsorted(town.visits_until, draw, side="right") - 1
    # A draw just below the end of the last customer may be rounded up to it.
    return np.minimum(customer, len(town.age) - 1)


def _stores(rng: np.random.Generator, town: Town, customer: Ints) -> Ints:
    """Draw stores: mostly the home store, else mostly the second one, else anywhere."""
    away = rng.random(BLOCK_ROWS) >= town.loyalty[customer]
    elsewhere = rng.random(BLOCK_ROWS) >= SECOND_STORE
    anywhere = np.searchsorted(np.cumsum(town.store_share), rng.random(BLOCK_ROWS), side="right")
    anywhere = np.minimum(anywhere, len(town.store_share) - 1)
    return np.select([~away, ~elsewhere], [town.home[customer], town.second[customer]], anywhere)


def _named(names: Any, codes: Ints) -> Any:
    return names.take(pa.array(codes))


def batches(folder: Path, rows: int | None, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield the stream with its default number of stores and customers."""
    return generate(ROWS_UNLESS_TOLD if rows is None else rows, seed=seed)


def for_sites(rows: int | None, sites: int) -> Iterator[pa.RecordBatch]:
    """Yield the stream of a chain with so many stores."""
    return generate(ROWS_UNLESS_TOLD if rows is None else rows, stores=sites)


ENTRY: Final = Entry(
    name="stores",
    about="visits to a supermarket chain, generated",
    rows=None,
    persons=None,
    person_column="customer",
    site_column="store",
    licence="generated, free",
    read=batches,
    generate=for_sites,
)
