"""Figures over classes, computed from sparse counts so that many classes cost no more memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.verify_columns import MISSING, Codes, Numbers

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tally:
    """How often each value occurs in each group: only pairs that occur, ordered by group, value."""

    group: Counts
    value: Counts
    count: Counts
    groups: int


def tally(groups: Codes | Counts, values: Codes, group_count: int) -> Tally:
    """Count the values of each group; rows without a group or without a value are left out."""
    kept = (groups >= 0) & (values != MISSING)
    width = int(values.max(initial=0)) + 1
    keys = groups[kept].astype(np.int64) * width + values[kept]
    pairs, count = np.unique(keys, return_counts=True)
    return Tally(pairs // width, pairs % width, count.astype(np.int64), group_count)


def distinct(counted: Tally) -> Counts:
    """Count the different values of each group."""
    return np.bincount(counted.group, minlength=counted.groups)


def equal_distances(counted: Tally, whole: Counts) -> Numbers:
    """Measure how far each group is from the whole when all values are equally far apart.

    The earth mover's distance is then the total variation: half of the sum of |q - p|.
    """
    p = (whole / whole.sum())[counted.value]
    q = counted.count / np.bincount(counted.group, counted.count, counted.groups)[counted.group]
    present = np.bincount(counted.group, np.abs(q - p), counted.groups)
    absent = 1.0 - np.bincount(counted.group, p, counted.groups)
    distances: Numbers = 0.5 * (present + np.maximum(absent, 0.0))
    return distances


def ordered_distances(counted: Tally, whole: Counts) -> Numbers:
    """Measure how far each group is from the whole when value i is |i - j| / (m - 1) from j.

    The earth mover's distance is then the sum of |Q_i - P_i| over the cumulative distributions,
    divided by m - 1. Values are numbered in their order and all m of them occur in the whole.
    """
    steps = len(whole) - 1
    if steps < 1:
        return np.zeros(counted.groups)
    cumulative = np.cumsum(whole) / whole.sum()
    area = np.concatenate(([0.0], np.cumsum(cumulative)))
    # Q is constant from one present value to the next, P rises: the two cross at most once there.
    last = np.append(counted.group[1:] != counted.group[:-1], True)
    start = counted.value
    stop = np.where(last, len(whole), np.append(start[1:], 0))
    level = _running_share(counted)
    cross = np.clip(np.searchsorted(cumulative, level), start, stop)
    below = level * (cross - start) - (area[cross] - area[start])
    above = (area[stop] - area[cross]) - level * (stop - cross)
    # Before the first present value Q is 0, and what P has there must be moved.
    first = np.append(True, last[:-1])
    before = np.where(first, area[start], 0.0)
    distances: Numbers = np.bincount(counted.group, below + above + before, counted.groups) / steps
    return distances


def _running_share(counted: Tally) -> Numbers:
    """Return the cumulative distribution Q of each group at each of its values."""
    sums = np.bincount(counted.group, counted.count, counted.groups)
    before = np.concatenate(([0.0], np.cumsum(sums)))[counted.group]
    share: Numbers = (np.cumsum(counted.count) - before) / sums[counted.group]
    return share


def by_values(shown: list[Codes], values: Codes | None) -> tuple[int | None, int | None]:
    """Group rows by what they show: the fewest rows and the fewest values of any group."""
    names = [f"shown {place}" for place in range(len(shown))]
    if not names or not len(shown[0]):
        return None, None
    columns: dict[str, Any] = dict(zip(names, shown, strict=True))
    wanted: list[Any] = [([], "count_all")]
    if values is not None:
        columns["value"] = pa.array(values, mask=values == MISSING)
        wanted.append(("value", "count_distinct", pc.CountOptions(mode="only_valid")))
    groups = pa.table(columns).group_by(names).aggregate(wanted)
    fewest_rows = int(pc.min(groups["count_all"]).as_py())
    if values is None:
        return fewest_rows, None
    return fewest_rows, int(pc.min(groups["value_count_distinct"]).as_py())
