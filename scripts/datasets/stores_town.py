"""The town of the *stores* stream: where the stores are, who lives where, who shops where.

A town is drawn once per stream from its own generator; it takes about 80 bytes a customer.
Districts lie on a small map, a store draws its customers from near by (a gravity model), and the
age of a customer follows the district, so that attributes are clustered as they are in real data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scripts.datasets import stores_habits as habits

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DISTRICTS_PER_REGION: Final = 3
AREAS_PER_DISTRICT: Final = 4
REGIONS: Final = {
    "Centre": ("C", 0.0, 0.0),
    "North": ("N", 0.0, 3.0),
    "East": ("E", 3.0, 0.0),
    "South": ("S", 0.0, -3.0),
    "West": ("W", -3.0, 0.0),
}
DISTRICTS: Final = tuple(
    f"{letter}{number}"
    for letter, _, _ in REGIONS.values()
    for number in range(1, DISTRICTS_PER_REGION + 1)
)
AREAS: Final = tuple(
    f"{district}-{number:02d}"
    for district in DISTRICTS
    for number in range(1, AREAS_PER_DISTRICT + 1)
)

# Which kind of district stands where: the university in the centre, the old in the west, and so on.
DISTRICT_KIND: Final = (0, 1, 1, 2, 3, 4, 3, 2, 2, 1, 3, 4, 4, 3, 2)
STORE_REACH: Final = 1.1  # a store's pull falls by a factor e over this distance on the map
STORE_SIZE_ZIPF: Final = 0.7
LOYALTY: Final = (6.0, 1.8)  # beta distribution of the share of visits made at the home store


@dataclass(frozen=True, slots=True, kw_only=True)
class Town:
    """Stores and customers; customers are ordered by group: the home store's kind and the routine.

    `visits_until` is the running sum of the customers' visit weights, and customers
    `group_start[g]` to `group_start[g + 1]` make up group g, so that a uniform draw between two of
    its values picks a customer of one group in proportion to how often each comes.
    """

    store_names: Any
    store_share: Floats
    customer_names: Any
    age: Ints
    area: Ints
    household: Ints
    home: Ints
    second: Ints
    loyalty: Floats
    payment: Ints
    group_start: Ints
    visits_until: Floats


def found(rng: np.random.Generator, *, stores: int, customers: int) -> Town:
    """Draw a town with so many stores and customers."""
    place, kind, share = _open_stores(rng, stores)
    area = _settle(rng, customers)
    age = _ages(rng, area)
    band = np.digitize(age, habits.AGE_BAND_STARTS)
    household = choose_by_row(rng, habits.HOUSEHOLD_BY_AGE, band)
    near = _nearness(rng, place, share)
    home = choose_by_row(rng, near, area)
    routine = habits.routine(age, household)
    group = kind[home] * habits.ROUTINES + routine
    tail = rng.lognormal(sigma=habits.VISITS_SIGMA, size=customers).clip(max=habits.VISITS_TAIL_MAX)
    visits = habits.VISITS_BY_ROUTINE[routine] * tail

    order = np.argsort(group, kind="stable")
    groups = habits.STORE_KINDS * habits.ROUTINES
    return Town(
        store_names=pa.array([f"store-{number:02d}" for number in range(1, stores + 1)]),
        store_share=share,
        customer_names=_customer_names(rng.permutation(customers)),
        age=age[order],
        area=area[order],
        household=household[order],
        home=home[order],
        second=choose_by_row(rng, near, area[order]),
        loyalty=rng.beta(*LOYALTY, size=customers),
        payment=choose_by_row(rng, habits.PAYMENT_BY_AGE, band[order]),
        group_start=np.searchsorted(group[order], np.arange(groups + 1)),
        visits_until=np.concatenate([[0.0], np.cumsum(visits[order])]),
    )


def choose_by_row(rng: np.random.Generator, weights: Floats, row: Ints) -> Ints:
    """Draw, for each row number, a column in proportion to that row's weights."""
    until = np.cumsum(weights, axis=1)
    draw = rng.random(len(row))
    chosen = np.empty(len(row), dtype=np.int64)
    # Row by row, because there are few rows and many draws: no table of draws times columns.
    for number, steps in enumerate(until):
        here = row == number
        chosen[here] = np.searchsorted(steps, draw[here] * steps[-1], side="right")
    # A draw just below the end of the last column may be rounded up to it.
    return chosen.clip(max=weights.shape[1] - 1)


def _district_places() -> Floats:
    """Place the districts on the map: three around the middle of each region."""
    places = []
    for _, x, y in REGIONS.values():
        for number in range(DISTRICTS_PER_REGION):
            angle = 2 * np.pi * number / DISTRICTS_PER_REGION
            places.append((x + np.cos(angle), y + np.sin(angle)))
    return np.array(places)


def _open_stores(rng: np.random.Generator, stores: int) -> tuple[Floats, Ints, Floats]:
    """Give each store place, kind and share of the trade; the first is the largest."""
    number = np.arange(stores)
    # Region by region, then the second district of each: few stores are spread over the town.
    regions = len(REGIONS)
    district = number % regions * DISTRICTS_PER_REGION + number // regions % DISTRICTS_PER_REGION
    place = _district_places()[district] + rng.normal(scale=0.2, size=(stores, 2))
    kinds = (habits.STATION, habits.QUARTER, habits.QUARTER, habits.OUTSKIRTS)
    kind = np.array(kinds, dtype=np.int64)[number % len(kinds)]
    size = (number + 1.0) ** -STORE_SIZE_ZIPF
    return place, kind, size / size.sum()


def _settle(rng: np.random.Generator, customers: int) -> Ints:
    """Draw the area each customer lives in; areas differ in size."""
    population = rng.lognormal(sigma=0.5, size=len(AREAS))
    return rng.choice(len(AREAS), size=customers, p=population / population.sum())


def _ages(rng: np.random.Generator, area: Ints) -> Ints:
    """Draw ages: each area mixes the generations nearly as its district does."""
    kind = np.repeat(DISTRICT_KIND, AREAS_PER_DISTRICT)
    mixture = np.array([rng.dirichlet(40 * habits.DISTRICT_KINDS[k]) for k in kind])
    mean, spread = np.array(habits.GENERATIONS)[choose_by_row(rng, mixture, area)].T
    years: Ints = np.rint(rng.normal(mean, spread)).astype(np.int64)
    return years.clip(habits.AGE_MIN, habits.AGE_MAX)


def _nearness(rng: np.random.Generator, stores: Floats, share: Floats) -> Floats:
    """Weigh [area, store]: large stores and near ones draw the most customers."""
    centres = np.repeat(_district_places(), AREAS_PER_DISTRICT, axis=0)
    areas = centres + rng.normal(scale=0.4, size=centres.shape)
    distance = np.linalg.norm(areas[:, None, :] - stores[None, :, :], axis=2)
    pull: Floats = share * np.exp(-distance / STORE_REACH)
    return pull


def _customer_names(numbers: Ints) -> Any:
    """Print card numbers like C000042, in an order that tells nothing about the customers."""
    width = max(6, len(str(len(numbers))))
    return pa.array([f"C{number:0{width}d}" for number in numbers.tolist()])
