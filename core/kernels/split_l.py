"""CASTLE's split for l-diversity: every part takes its share of every sensitive value."""

from __future__ import annotations

from core.kernels.counts import below, first_sight, fresh_stamp
from core.kernels.jit import kernel
from core.kernels.layout import NOBODY, Ints, Longs, Records, Rules, Split, Trees, Window
from core.kernels.split import (
    enlargements_of,
    group_by_person,
    join,
    join_nearest,
    load_column,
    mark_nearest,
    one_part,
    start_part,
)


@kernel
def split_l(
    rules: Rules,
    trees: Trees,
    register: Longs,
    window: Window,
    split: Split,
    order: Ints,
    start: int,
    stop: int,
) -> int:
    """CASTLE, split-l(). Returns the number of parts.

    The share k * |B| / sum is rounded up: rounded down, as the paper may be read, parts fall short
    of k persons. Rounded up, every part has k persons and, with l buckets or more, l values.
    """
    persons = group_by_person(rules, register, window, split, order, start, stop)
    buckets = generate_buckets(register, window, split, persons)
    bucket = split.bucket
    part, left, filled = 0, persons, buckets
    # Line 5: while l buckets hold k persons.
    while filled >= rules.l and left >= rules.k:
        # Lines 6-9: a random tuple of a random bucket begins the part and leaves its bucket.
        b = nth_filled(bucket, below(register, filled))
        begin = bucket[b].start
        split.distance[begin : begin + bucket[b].size] = 0
        seed = begin + below(register, bucket[b].size)
        split.distance[seed] = NOBODY
        start_part(window, split, split.rep[seed], part)
        take_share(window, split, b, part)
        total = left
        left -= 1
        # Lines 10-18: the share of each bucket that enlarges the part least.
        for b in range(buckets):
            begin, size = bucket[b].start, bucket[b].size
            if size > 0:
                share = min(size, (rules.k * size + total - 1) // total)
                enlargements_of(rules, trees, split, part, begin, begin + size)
                mark_nearest(split.distance[begin : begin + size], share)
                left -= take_share(window, split, b, part)
        part += 1
        filled = 0
        for b in range(buckets):
            filled += 1 if bucket[b].size > 0 else 0
    # Lines 2-3: no part could be made.
    if part == 0:
        return one_part(window, split, order, start, stop)
    # Lines 20-24: what is left joins the nearest part.
    for b in range(buckets):
        for i in range(bucket[b].start, bucket[b].start + bucket[b].size):
            join_nearest(rules, trees, window, split, split.rep[i], part)
    follow_representatives(rules, register, window, split, order, start, stop)
    return part


@kernel
def generate_buckets(register: Longs, window: Window, split: Split, persons: int) -> int:
    """Sort the representatives into buckets by sensitive value; buckets in order of appearance."""
    bucket, stamp, buckets = split.bucket, fresh_stamp(register), 0
    for i in range(persons):
        b = first_sight(split.seen, stamp, window.item[split.rep[i]].value, buckets)
        if b == NOBODY:
            b = buckets
            bucket[b].size = 0
            buckets += 1
        bucket[i].of = b
        bucket[b].size += 1
    start = 0
    for b in range(buckets):
        bucket[b].start = start
        start += bucket[b].size
        bucket[b].size = 0
    for i in range(persons):
        split.spare[i] = split.rep[i]
    for i in range(persons):
        b = bucket[i].of
        place = bucket[b].start + bucket[b].size
        bucket[b].size += 1
        split.rep[place] = split.spare[i]
        load_column(window, split, place, split.spare[i])
    return buckets


@kernel
def nth_filled(bucket: Records, n: int) -> int:
    """The n-th bucket that is not empty."""
    b = 0
    while bucket[b].size == 0 or n > 0:
        n -= 1 if bucket[b].size > 0 else 0
        b += 1
    return b


@kernel
def take_share(window: Window, split: Split, b: int, part: int) -> int:
    """Move the bucket's marked representatives into the part; returns how many."""
    begin, size = split.bucket[b].start, split.bucket[b].size
    kept = begin
    for i in range(begin, begin + size):
        slot = split.rep[i]
        if split.distance[i] == NOBODY:
            join(window, split, slot, part)
            continue
        if kept != i:
            split.rep[kept] = slot
            for d in range(split.column.shape[0]):
                split.column[d, kept] = split.column[d, i]
        kept += 1
    split.bucket[b].size = kept - begin
    return begin + size - kept


@kernel
def follow_representatives(
    rules: Rules,
    register: Longs,
    window: Window,
    split: Split,
    order: Ints,
    start: int,
    stop: int,
) -> None:
    """Lines 25-30: every further tuple of a person goes where the representative is."""
    if not rules.count_persons:
        return
    item, stamp = window.item, fresh_stamp(register)
    for i in range(start, stop):
        slot = order[i]
        leader = first_sight(split.seen, stamp, item[slot].person, slot)
        if leader != NOBODY:
            join(window, split, slot, item[leader].part)
