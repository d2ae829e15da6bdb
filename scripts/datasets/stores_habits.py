"""What the customers of the *stores* stream are like: the made-up statistics, as tables.

Every number here is invented, with real shops in mind: young people live in shared flats and pay by
phone, pensioners come in the morning and pay cash, parents buy for babies, bread sells at breakfast
and beer in the evening. Each table's rows are relative weights; nothing has to sum to one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

AGE_MIN: Final = 16
AGE_MAX: Final = 95
HOUR_FIRST: Final = 7
HOUR_LAST: Final = 21
HOURS: Final = HOUR_LAST - HOUR_FIRST + 1

HOUSEHOLDS: Final = (
    "single",
    "single-parent",
    "retired-single",
    "couple",
    "couple-with-children",
    "retired-couple",
    "shared-flat",
    "with-parents",
    "three-generations",
)
PAYMENTS: Final = ("cash", "voucher", "debit-card", "credit-card", "phone", "watch")
# From what everybody buys to what nobody should know that one buys.
PRODUCT_GROUPS: Final = (
    "fresh-food",
    "bakery",
    "drinks",
    "dairy-and-frozen",
    "household-goods",
    "ready-meals",
    "alcohol",
    "tobacco",
    "pet-food",
    "pharmacy",
    "baby",
    "pregnancy-and-contraception",
)

# Ages fall into eight bands, the rows of the tables below: 16-17, 18-24, 25-34, ... 65-74, 75-95.
AGE_BAND_STARTS: Final = (18, 25, 35, 45, 55, 65, 75)
AGE_BANDS: Final = len(AGE_BAND_STARTS) + 1

# The ages of a neighbourhood are a mixture of these generations: mean and spread in years.
GENERATIONS: Final = ((21.5, 2.5), (31.0, 4.0), (41.0, 4.5), (54.0, 5.0), (70.0, 5.0), (82.0, 5.0))
# One row per kind of district, one column per generation.
DISTRICT_KINDS: Final[Floats] = np.array(
    [
        [0.52, 0.28, 0.06, 0.06, 0.05, 0.03],  # university quarter
        [0.12, 0.46, 0.20, 0.11, 0.07, 0.04],  # young and central
        [0.08, 0.17, 0.43, 0.18, 0.09, 0.05],  # new estates, families
        [0.10, 0.14, 0.19, 0.32, 0.17, 0.08],  # mixed
        [0.04, 0.07, 0.09, 0.20, 0.37, 0.23],  # grown old together
    ]
)

# One row per age band, one column per household.
HOUSEHOLD_BY_AGE: Final[Floats] = np.array(
    [
        [2, 0, 0, 0, 0, 0, 2, 90, 6],
        [18, 2, 0, 12, 3, 0, 35, 28, 2],
        [27, 5, 0, 30, 22, 0, 12, 3, 1],
        [18, 8, 0, 18, 50, 0, 3, 1, 2],
        [20, 7, 0, 28, 40, 0, 2, 1, 2],
        [24, 2, 3, 50, 10, 6, 1, 0, 4],
        [3, 0, 30, 5, 0, 57, 1, 0, 4],
        [1, 0, 52, 1, 0, 40, 0, 0, 6],
    ],
    dtype=np.float64,
)

# One row per age band, one column per payment.
PAYMENT_BY_AGE: Final[Floats] = np.array(
    [
        [38, 6, 26, 0, 26, 4],
        [14, 3, 34, 6, 36, 7],
        [12, 2, 36, 14, 28, 8],
        [16, 2, 42, 18, 17, 5],
        [22, 2, 46, 18, 10, 2],
        [33, 3, 46, 14, 4, 0.5],
        [48, 5, 38, 8, 1, 0.2],
        [64, 7, 25, 4, 0.3, 0],
    ]
)
PAYMENT_HABIT: Final = 0.8  # how often a customer pays the way he or she always pays

# How life divides the day: the rows of the curves below.
YOUNG, WORKING, PARENT, RETIRED = range(4)
ROUTINES: Final = 4
VISITS_BY_ROUTINE: Final[Floats] = np.array([0.8, 1.0, 1.3, 1.2])
# Visits are heavy-tailed: most people come now and then, a few nearly every day.
VISITS_SIGMA: Final = 1.1
VISITS_TAIL_MAX: Final = 25.0  # times the median: about three visits a day at most
VISITS_PER_WEEK: Final = 0.8

# One row per routine, one column per hour from 7 to 21.
WEEKDAY_CURVES: Final[Floats] = np.array(
    [
        [1, 1, 1, 2, 3, 6, 7, 5, 4, 5, 6, 7, 7, 6, 4],
        [4, 5, 2, 1, 2, 6, 6, 2, 2, 4, 9, 11, 8, 5, 3],
        [2, 4, 7, 6, 5, 4, 3, 4, 6, 8, 7, 5, 3, 2, 1],
        [2, 6, 11, 12, 9, 5, 3, 4, 5, 4, 2, 1, 0.5, 0.2, 0.1],
    ]
)
SATURDAY_CURVES: Final[Floats] = np.array(
    [
        [0.3, 0.5, 1, 3, 5, 6, 7, 7, 7, 7, 7, 7, 7, 7, 6],
        [1, 3, 6, 9, 10, 8, 7, 7, 6, 5, 5, 4, 3, 2, 1],
        [1, 4, 9, 11, 10, 7, 5, 5, 5, 4, 3, 2, 1, 0.5, 0.3],
        [2, 6, 10, 10, 8, 4, 3, 3, 2, 1.5, 1, 0.5, 0.2, 0.1, 0.1],
    ]
)
DAY_FACTORS: Final = (0.95, 0.90, 0.92, 1.00, 1.25, 1.35)  # Monday to Saturday; closed on Sunday

# One row per kind of store, one column per hour: commuters at the station, cars at the outskirts.
STORE_KINDS: Final = 3
STATION, QUARTER, OUTSKIRTS = range(STORE_KINDS)
STORE_CURVES: Final[Floats] = np.array(
    [
        [3, 3, 1.5, 1, 1, 1.5, 1.5, 1, 1.2, 1.8, 2.5, 2.5, 2, 1.5, 1.5],
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        [0.3, 0.6, 1, 1.2, 1.1, 1, 1, 1.2, 1.4, 1.5, 1.4, 1.2, 0.9, 0.6, 0.3],
    ]
)

# Product groups: Zipf's law, bent by the hour, the age and the household. Columns: product groups.
PRODUCT_ZIPF: Final = 1.1
HOUR_BAND_STARTS: Final = (11, 14, 17, 20)  # morning, noon, afternoon, evening, late
PRODUCT_BY_HOUR: Final[Floats] = np.array(
    [
        [0.9, 2.8, 0.8, 1.0, 0.8, 0.2, 0.1, 1.2, 1.0, 1.2, 1.0, 0.7],
        [0.8, 1.3, 1.6, 0.8, 0.7, 2.0, 0.4, 0.9, 0.7, 1.0, 0.8, 0.8],
        [1.2, 0.7, 0.9, 1.2, 1.4, 0.7, 0.8, 0.8, 1.2, 1.1, 1.4, 0.9],
        [1.2, 0.4, 1.0, 1.1, 1.1, 1.6, 1.7, 1.1, 1.1, 0.8, 0.9, 1.2],
        [0.5, 0.2, 1.3, 0.6, 0.6, 2.0, 3.6, 2.0, 0.8, 0.6, 0.7, 2.2],
    ]
)
PRODUCT_BY_AGE: Final[Floats] = np.array(
    [
        [0.3, 1.6, 2.2, 0.5, 0.2, 1.5, 0.0, 0.0, 0.4, 0.4, 0.0, 1.2],
        [0.6, 1.0, 1.5, 0.8, 0.7, 2.0, 1.7, 1.3, 0.4, 0.5, 0.5, 2.4],
        [0.9, 0.9, 1.1, 1.0, 0.9, 1.4, 1.3, 1.2, 0.8, 0.6, 1.6, 2.2],
        [1.0, 1.0, 1.0, 1.1, 1.1, 1.0, 1.0, 1.1, 1.1, 0.7, 1.5, 1.0],
        [1.1, 1.0, 0.9, 1.1, 1.2, 0.8, 1.1, 1.2, 1.3, 0.9, 0.3, 0.2],
        [1.2, 1.1, 0.8, 1.0, 1.2, 0.6, 1.2, 1.1, 1.3, 1.3, 0.1, 0.02],
        [1.3, 1.2, 0.7, 1.0, 1.1, 0.5, 0.9, 0.7, 1.2, 2.0, 0.1, 0.0],
        [1.2, 1.3, 0.6, 1.0, 0.9, 0.7, 0.5, 0.3, 1.0, 3.2, 0.0, 0.0],
    ]
)
PRODUCT_BY_HOUSEHOLD: Final[Floats] = np.array(
    [
        [0.8, 1.0, 1.0, 0.8, 0.8, 1.8, 1.4, 1.3, 1.0, 1.0, 0.05, 1.0],
        [1.0, 1.1, 1.0, 1.2, 1.1, 1.3, 0.7, 1.2, 0.8, 1.1, 3.5, 0.7],
        [1.0, 1.2, 0.7, 0.9, 0.8, 1.2, 0.8, 0.9, 1.5, 1.3, 0.0, 0.0],
        [1.1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.2, 1.0, 1.2, 1.0, 0.3, 1.6],
        [1.2, 1.2, 1.1, 1.4, 1.2, 0.8, 0.8, 0.8, 1.1, 1.0, 4.0, 0.6],
        [1.3, 1.2, 0.7, 1.1, 1.1, 0.4, 1.0, 0.7, 1.2, 1.3, 0.1, 0.0],
        [0.6, 0.9, 1.4, 0.8, 0.8, 2.0, 1.9, 1.5, 0.3, 0.7, 0.0, 1.6],
        [0.5, 1.4, 1.8, 0.7, 0.4, 1.5, 0.8, 0.9, 0.5, 0.5, 0.0, 1.6],
        [1.4, 1.2, 1.0, 1.5, 1.3, 0.4, 0.6, 0.9, 0.8, 1.3, 2.2, 0.4],
    ]
)


def routine(age: NDArray[np.int64], household: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tell which routine a customer of this age and household follows."""
    children = ("single-parent", "couple-with-children", "three-generations")
    parent = np.isin(household, [HOUSEHOLDS.index(name) for name in children])
    retired = np.isin(household, [HOUSEHOLDS.index(f"retired-{n}") for n in ("single", "couple")])
    return np.select(
        [(age >= 65) | retired, parent, age < 25],
        [np.int64(RETIRED), np.int64(PARENT), np.int64(YOUNG)],
        default=np.int64(WORKING),
    )


def week_curves() -> Floats:
    """Weigh [slot of the week, kind of home store, routine]; a slot is one open hour of a day."""
    days = [
        factor * (SATURDAY_CURVES if day == len(DAY_FACTORS) - 1 else WEEKDAY_CURVES)
        for day, factor in enumerate(DAY_FACTORS)
    ]
    by_hour = [STORE_CURVES[:, None, :] * curves[None, :, :] for curves in days]
    return np.concatenate(by_hour, axis=2).transpose(2, 0, 1)


def product_weights() -> Floats:
    """Weigh [hour band, age band, household, product group]."""
    ranks = np.arange(1, len(PRODUCT_GROUPS) + 1)
    return (
        PRODUCT_BY_HOUR[:, None, None, :]
        * PRODUCT_BY_AGE[None, :, None, :]
        * PRODUCT_BY_HOUSEHOLD[None, None, :, :]
        / ranks**PRODUCT_ZIPF
    )
