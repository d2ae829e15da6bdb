"""CASTLE's KNN split, and the pieces that every split is made of.

A split works on the members in order[start:stop]. It leaves the number of a part in every
member's `part` and the part's box in split.low and split.high.
"""

from __future__ import annotations

import numpy as np

from core.kernels.box import box_add, box_enlargement, box_start, common_ancestor, cost_of
from core.kernels.counts import below, first_sight, fresh_stamp, sighted, wide
from core.kernels.jit import kernel, leaf
from core.kernels.layout import CLOSED, NOBODY, Ints, Longs, Rules, Split, Trees, Window


@kernel
def group_by_person(
    rules: Rules,
    register: Longs,
    window: Window,
    split: Split,
    order: Ints,
    start: int,
    stop: int,
) -> int:
    """One bucket per person: split.rep holds its first tuple, `chain` leads to the others."""
    item, stamp, persons = window.item, fresh_stamp(register), 0
    for i in range(start, stop):
        slot = order[i]
        item[slot].chain = NOBODY
        bucket = wide(NOBODY)
        if rules.count_persons:
            bucket = first_sight(split.seen, stamp, item[slot].person, persons)
        if bucket == NOBODY:
            split.rep[persons] = slot
            split.spare[persons] = slot
            persons += 1
        else:
            item[split.spare[bucket]].chain = slot
            split.spare[bucket] = slot
    return persons


@leaf
def load_column(window: Window, split: Split, place: int, slot: int) -> None:
    """Copy the tuple's codes to `place` of the attribute-major columns."""
    for d in range(window.code.shape[1]):
        split.column[d, place] = window.code[slot, d]


@kernel
def enlargements_of(
    rules: Rules, trees: Trees, split: Split, part: int, start: int, stop: int
) -> None:
    """split.distance[i] = enlargement of the part's box by representative i.

    For a part of one tuple this is the distance to it (CASTLE, footnote 4).
    """
    distance = split.distance[start:stop]
    distance[:] = 0
    for d in range(rules.numeric):
        low, high = split.low[part, d], split.high[part, d]
        column = split.column[d, start:stop]
        for i in range(distance.shape[0]):
            under = low - column[i]
            over = column[i] - high
            outside = under if under > over else over
            distance[i] += outside if outside > 0 else 0
    for a in range(rules.categorical):
        d = rules.numeric + a
        low, high = split.low[part, d], split.high[part, d]
        leaf_enlargements(trees, split.leaf_cost, a, common_ancestor(trees, a, low, low, high))
        leaf_cost, column = split.leaf_cost, split.column[d, start:stop]
        for i in range(distance.shape[0]):
            distance[i] += leaf_cost[column[i]]


@leaf
def leaf_enlargements(trees: Trees, leaf_cost: Ints, attribute: int, node: int) -> None:
    """leaf_cost[leaf] = how much dearer the node becomes by taking in the leaf."""
    base = trees.tree[attribute].node
    own = cost_of(trees, attribute, node)
    leaf_cost[trees.node[base + node].first : trees.node[base + node].last + 1] = 0
    above = trees.node[base + node].parent
    while above >= 0:
        more = cost_of(trees, attribute, above) - own
        leaf_cost[trees.node[base + above].first : trees.node[base + node].first] = more
        leaf_cost[trees.node[base + node].last + 1 : trees.node[base + above].last + 1] = more
        node = above
        above = trees.node[base + node].parent


@kernel
def mark_nearest(distance: Ints, count: int) -> None:
    """Mark the `count` smallest distances with -1; of equals the first are taken.

    Bisection on the distance: each round is one vectorised count.
    """
    low, high = CLOSED, np.int32(NOBODY)
    for i in range(distance.shape[0]):
        low = distance[i] if distance[i] < low else low
        high = distance[i] if distance[i] > high else high
    ties = count
    while low < high:
        middle = low + ((high - low) >> 1)
        within = np.int32(0)
        for i in range(distance.shape[0]):
            within += np.int32(1) if distance[i] <= middle else np.int32(0)
        if within >= count:
            high = middle
        else:
            low = middle + np.int32(1)
    for i in range(distance.shape[0]):
        ties -= 1 if distance[i] < low else 0
    for i in range(distance.shape[0]):
        if distance[i] < low:
            distance[i] = NOBODY
        elif distance[i] == low and ties > 0:
            distance[i] = NOBODY
            ties -= 1


@leaf
def start_part(window: Window, split: Split, slot: int, part: int) -> None:
    """Begin the part with one tuple."""
    window.item[slot].part = part
    box_start(split.low[part], split.high[part], window.code[slot])


@leaf
def join(window: Window, split: Split, slot: int, part: int) -> None:
    """Put one tuple into the part."""
    window.item[slot].part = part
    box_add(split.low[part], split.high[part], window.code[slot])


@kernel
def one_part(window: Window, split: Split, order: Ints, start: int, stop: int) -> int:
    """All members form a single part; returns 1."""
    start_part(window, split, order[start], 0)
    for i in range(start + 1, stop):
        join(window, split, order[i], 0)
    return 1


@kernel
def join_nearest(
    rules: Rules, trees: Trees, window: Window, split: Split, slot: int, parts: int
) -> int:
    """Put the tuple into the part that it enlarges least; returns which."""
    best, least = 0, wide(int(CLOSED))
    for part in range(parts):
        low, high = split.low[part], split.high[part]
        more = box_enlargement(rules, trees, low, high, window.code[slot], least)
        if more < least:
            best, least = part, more
    join(window, split, slot, best)
    return best


@kernel
def split_knn(
    rules: Rules,
    trees: Trees,
    register: Longs,
    window: Window,
    split: Split,
    order: Ints,
    start: int,
    stop: int,
) -> int:
    """CASTLE, split(): a random tuple and its k-1 nearest persons, again and again.

    With l > 1 a part that is short of values also takes the nearest tuples of other values.
    Returns the number of parts.
    """
    persons = group_by_person(rules, register, window, split, order, start, stop)
    for i in range(persons):
        load_column(window, split, i, split.rep[i])
    part = 0
    # Line 3: while there are k persons left.
    while persons >= rules.k:
        # Lines 4-5: a random bucket and its tuple begin the part.
        seed = below(register, persons)
        start_part(window, split, split.rep[seed], part)
        # Lines 8-12: the k-1 nearest others; the seed itself comes first.
        enlargements_of(rules, trees, split, part, 0, persons)
        split.distance[seed] = NOBODY
        mark_nearest(split.distance[:persons], rules.k)
        if rules.l > 1 and not mark_values(rules, register, window, split, persons):
            break
        # Lines 13-19: they leave their buckets; emptied buckets go.
        persons = take_marked(window, split, persons, part)
        part += 1
    # Lines 21-24: what is left joins the nearest part, each person as a whole.
    if part == 0:
        return one_part(window, split, order, start, stop)
    for i in range(persons):
        slot = wide(split.rep[i])
        near = join_nearest(rules, trees, window, split, slot, part)
        slot = window.item[slot].chain
        while slot != NOBODY:
            join(window, split, slot, near)
            slot = window.item[slot].chain
    return part


@kernel
def mark_values(rules: Rules, register: Longs, window: Window, split: Split, persons: int) -> bool:
    """Mark the nearest tuples of further values until l are marked; False when there are none."""
    item, seen, stamp, values = window.item, split.seen, fresh_stamp(register), 0
    for i in range(persons):
        if values < rules.l and split.distance[i] == NOBODY:
            values += 1 if first_sight(seen, stamp, item[split.rep[i]].value, 0) < 0 else 0
    while values < rules.l:
        best, least = NOBODY, CLOSED
        for i in range(persons):
            closer = split.distance[i] >= 0 and split.distance[i] < least
            if closer and not sighted(seen, stamp, item[split.rep[i]].value):
                best, least = i, split.distance[i]
        if best == NOBODY:
            return False
        split.distance[best] = NOBODY
        first_sight(seen, stamp, item[split.rep[best]].value, 0)
        values += 1
    return True


@kernel
def take_marked(window: Window, split: Split, persons: int, part: int) -> int:
    """Move the marked tuples into the part; returns how many buckets remain.

    The last bucket takes the place of an emptied one.
    """
    for i in range(persons - 1, -1, -1):
        if split.distance[i] != NOBODY:
            continue
        slot = wide(split.rep[i])
        join(window, split, slot, part)
        slot = window.item[slot].chain
        if slot != NOBODY:
            split.rep[i] = slot
            load_column(window, split, i, slot)
            continue
        persons -= 1
        split.rep[i] = split.rep[persons]
        for d in range(split.column.shape[0]):
            split.column[d, i] = split.column[d, persons]
    return persons
