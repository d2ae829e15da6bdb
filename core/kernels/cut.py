"""Cutting some tuples in two where that narrows them most."""

from __future__ import annotations

from typing import Final

import numpy as np

from core.kernels.counts import first_sight, fresh_stamp
from core.kernels.jit import kernel, leaf
from core.kernels.layout import NOBODY, Ints, Longs, Records, Rules, Split, Window

# Tuples a cut is chosen on.
SAMPLE: Final = 32
# Cuts tried, best first, before a range is left whole.
TRIES: Final = 4


@kernel
def count_persons(
    rules: Rules,
    register: Longs,
    window: Window,
    seen: Records,
    order: Ints,
    start: int,
    stop: int,
) -> int:
    """Distinct persons among the members."""
    if not rules.count_persons:
        return stop - start
    stamp, persons = fresh_stamp(register), 0
    for i in range(start, stop):
        person = window.item[order[i]].person
        persons += 1 if first_sight(seen, stamp, person, 0) < 0 else 0
    return persons


@kernel
def enough(
    rules: Rules,
    register: Longs,
    window: Window,
    seen: Records,
    order: Ints,
    start: int,
    stop: int,
) -> bool:
    """Whether the members hold k persons and l values."""
    if stop - start < rules.k:
        return False
    if count_persons(rules, register, window, seen, order, start, stop) < rules.k:
        return False
    if rules.l <= 1:
        return True
    stamp, values = fresh_stamp(register), 0
    for i in range(start, stop):
        value = window.item[order[i]].value
        values += 1 if first_sight(seen, stamp, value, 0) < 0 else 0
        if values == rules.l:
            return True
    return False


@kernel
def cut(
    rules: Rules,
    register: Longs,
    window: Window,
    split: Split,
    order: Ints,
    start: int,
    stop: int,
) -> int:
    """Cut the range in two at the best cut that holds; returns the middle, or NOBODY.

    Each side needs k persons and l values. Where no attribute tells the members apart, the older
    half is cut from the younger.
    """
    rank_cuts(rules, window, split, order, start, stop)
    for _ in range(TRIES):
        best = NOBODY
        for d in range(split.cut.shape[0]):
            if split.cut[d].gain > 0 and (
                best == NOBODY or split.cut[d].gain > split.cut[best].gain
            ):
                best = d
        if best == NOBODY:
            break
        split.cut[best].gain = 0
        middle = partition(window, split.spare, order, start, stop, best, split.cut[best].at)
        if both_enough(rules, register, window, split.seen, order, start, middle, stop):
            return middle
    middle = (start + stop) // 2
    if both_enough(rules, register, window, split.seen, order, start, middle, stop):
        return middle
    return NOBODY


@kernel
def both_enough(
    rules: Rules,
    register: Longs,
    window: Window,
    seen: Records,
    order: Ints,
    start: int,
    middle: int,
    stop: int,
) -> bool:
    """Whether both sides of the cut can be published."""
    return enough(rules, register, window, seen, order, start, middle) and enough(
        rules, register, window, seen, order, middle, stop
    )


@kernel
def partition(
    window: Window, spare: Ints, order: Ints, start: int, stop: int, attribute: int, at: int
) -> int:
    """Move members with code <= at to the front, keeping their order; returns the middle."""
    middle, others = start, 0
    for i in range(start, stop):
        slot = order[i]
        if window.code[slot, attribute] <= at:
            order[middle] = slot
            middle += 1
        else:
            spare[others] = slot
            others += 1
    for i in range(others):
        order[middle + i] = spare[i]
    return middle


@kernel
def rank_cuts(
    rules: Rules, window: Window, split: Split, order: Ints, start: int, stop: int
) -> None:
    """The best cut of every attribute, judged on a sample by how much it narrows that attribute.

    A cut between two neighbours leaves the lower side without what is above, and the other way
    round. Its gain is that width, times the tuples that it is saved for. Weighing the other
    attributes too costs ten times as much and was no better.
    """
    sample, members = split.sample, stop - start
    count = min(SAMPLE, members)
    # A side needs about k persons of the range; the exact count decides later.
    least = max(1, rules.k * count // members)
    for d in range(split.cut.shape[0]):
        for i in range(count):
            sample[i] = window.code[order[start + members * i // count], d]
        sort_ascending(sample, count)
        split.cut[d].gain = 0
        for i in range(least, count - least + 1):
            below, above = sample[i - 1], sample[i]
            if below == above:
                continue
            gain = i * np.int64(sample[count - 1] - below) + (count - i) * (above - sample[0])
            if gain * split.scale[d] > split.cut[d].gain:
                split.cut[d].gain = gain * split.scale[d]
                split.cut[d].at = below


@leaf
def sort_ascending(sample: Ints, count: int) -> None:
    """Insertion sort: the sample is small."""
    for i in range(1, count):
        value = sample[i]
        j = i - 1
        while j >= 0 and sample[j] > value:
            sample[j + 1] = sample[j]
            j -= 1
        sample[j + 1] = value
