"""What a site does for classes of several sites: come due, grow a box, hold, publish.

A tuple comes due LEAD arrivals before its deadline. The call then stops, so that a settlement can
be opened; the stream need not wait for its end. At the deadline the call stops again: the tuple is
decided by this site alone. Tuples that are promised to a settlement are HELD: in no cluster.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.kernels.box import box_add
from core.kernels.counts import first_sight, fresh_stamp, wide
from core.kernels.expire import delay_constraint, publish_alone, reusable_row
from core.kernels.jit import kernel, leaf
from core.kernels.layout import (
    DECIDED,
    DUE,
    EXPIRED,
    HELD,
    IN_LINE,
    JOINT_CLASS,
    LEAD,
    NOBODY,
    OVERDUE,
    PENDING,
    POSITION,
    Floats,
    Ints,
    Longs,
    Split,
    State,
)
from core.kernels.member import depart
from core.kernels.publish import emit, settle_tau
from core.kernels.release import decide_in_line, work_off, work_once
from core.kernels.reuse import remember
from core.kernels.split import enlargements_of, load_column, mark_nearest, start_part
from core.kernels.stream import begin, push, take_in

# A key is a distance and, below, a place.
KEY_SHIFT: Final = 32


@kernel
def advance_jointly(
    state: State,
    code: Ints,
    raw: Floats,
    person: Longs,
    value: Longs,
    general: NDArray[np.bool_],
    now: int,
    soft_moment: int,
    moment: int,
) -> int:
    """Take in tuples until one is due; returns how many. The one that is due is in DUE.

    What arrived at `soft_moment` or earlier is due, at `moment` or earlier overdue.
    """
    rules, register, window = state.rules, state.register, state.window
    mask = window.item.shape[0] - 1
    begin(state)
    i = 0
    while not find_due(state, soft_moment, moment) and i < code.shape[0]:
        position = take_in(state, code, raw, person, value, general, i, now)
        if register[PENDING] > 0:
            work_off(state, (position - rules.delay) & mask)
        i += 1
    return i


@kernel
def find_due(state: State, soft_moment: int, moment: int) -> bool:
    """Look for a tuple that has to be settled or decided; whether there is one."""
    rules, register, item = state.rules, state.register, state.window.item
    mask = item.shape[0] - 1
    register[DUE], register[OVERDUE] = NOBODY, 0
    while register[DECIDED] < register[POSITION]:
        slot = register[DECIDED] & mask
        late = register[DECIDED] < register[POSITION] - rules.delay or item[slot].arrived <= moment
        if item[slot].owner == IN_LINE and late:
            decide_in_line(state, slot)
        if item[slot].owner != NOBODY:
            if late:
                register[DUE], register[OVERDUE] = slot, 1
                return True
            break
        register[DECIDED] += 1
    register[EXPIRED] = max(register[EXPIRED], register[DECIDED])
    while register[EXPIRED] < register[POSITION]:
        slot = register[EXPIRED] & mask
        soon = register[EXPIRED] < register[POSITION] - rules.delay + register[LEAD]
        if not soon and item[slot].arrived > soft_moment:
            break
        register[EXPIRED] += 1
        if item[slot].owner >= 0:
            row = reusable_row(state, slot)
            if row == NOBODY:
                register[DUE] = slot
                return True
            publish_alone(state, slot, row)
    return False


@kernel
def decide_alone(state: State, slot: int) -> None:
    """The tuple is decided now, as if there were no other site."""
    begin(state)
    delay_constraint(state, slot)
    decide_in_line(state, slot)


@kernel
def empty_line(state: State) -> None:
    """Publish all clusters that stand in line: no arrivals will pay for them any more."""
    begin(state)
    while state.register[PENDING] > 0:
        work_once(state)


@kernel
def gather_free(state: State, first: int, least: int) -> int:
    """Lay out the tuples that are in a cluster, `first` (a slot or NOBODY) before all others.

    Only positions from `least` on count. Returns how many there are: slots in split.order, codes in
    split.column.
    """
    register, window, split = state.register, state.window, state.split
    mask, count = window.item.shape[0] - 1, 0
    if first != NOBODY:
        split.order[0] = first
        load_column(window, split, 0, first)
        count = 1
    for position in range(max(least, register[DECIDED]), register[POSITION]):
        slot = position & mask
        if window.item[slot].owner >= 0 and slot != first:
            split.order[count] = slot
            load_column(window, split, count, slot)
            count += 1
    return count


@kernel
def grow(state: State, slot: int, tuples: int, steps: int, box: int) -> int:
    """A box around the tuple and its nearest free ones, in split.low[box] and split.high[box].

    Nearest is what enlarges the box least as it grows, in so many steps: it follows the crowd,
    where a ball around the tuple would not. Returns how many distinct persons it holds.
    """
    rules, window, split = state.rules, state.window, state.split
    count = gather_free(state, slot, 0)
    wanted, taken = min(tuples, count), 1
    start_part(window, split, slot, box)
    for step in range(1, steps + 1):
        more = max(wanted * step // steps, 1) - taken
        if more <= 0:
            continue
        enlargements_of(rules, state.trees, split, box, taken, count)
        mark_nearest(split.distance[taken:count], more)
        for i in range(taken, count):
            if split.distance[i] == NOBODY:
                swap(split, i, taken)
                box_add(split.low[box], split.high[box], window.code[split.order[taken]])
                taken += 1
    return persons_in(state, taken)


@leaf
def swap(split: Split, i: int, j: int) -> None:
    """Exchange two of the tuples that are laid out."""
    split.order[i], split.order[j] = split.order[j], split.order[i]
    split.distance[i], split.distance[j] = split.distance[j], split.distance[i]
    for d in range(split.column.shape[0]):
        split.column[d, i], split.column[d, j] = split.column[d, j], split.column[d, i]


@kernel
def persons_in(state: State, count: int) -> int:
    """How many persons the first `count` tuples of split.order belong to."""
    if not state.rules.count_persons:
        return count
    stamp, persons = fresh_stamp(state.register), 0
    for i in range(count):
        person = state.window.item[state.split.order[i]].person
        persons += 1 if first_sight(state.split.seen, stamp, person, 0) < 0 else 0
    return persons


@kernel
def rank(state: State, low: Ints, high: Ints, first: int, least: int, radius: int) -> int:
    """Rank the free tuples that enlarge the box by at most `radius`, nearest first, then oldest.

    Returns how many; split.key holds (distance, place in split.order). The slot `first` is first.
    """
    rules, split = state.rules, state.split
    count = gather_free(state, first, least)
    for d in range(low.shape[0]):
        split.low[0, d] = low[d]
        split.high[0, d] = high[d]
    enlargements_of(rules, state.trees, split, 0, 0, count)
    if first != NOBODY:
        split.distance[0] = 0
    within = 0
    for i in range(count):
        if split.distance[i] <= radius:
            split.key[within] = (wide(split.distance[i]) << KEY_SHIFT) | i
            within += 1
    sort_keys(split.key, within)
    if first != NOBODY and within > 0:
        # A distance of 0 and an order of 0: nothing sorts before it.
        split.key[0] = 0
    return within


@kernel
def hold_nearest(
    state: State,
    low: Ints,
    high: Ints,
    least: int,
    radius: int,
    persons: int,
    slots: Longs,
    found: Longs,
) -> int:
    """Rank the free tuples around the box and hold those of the first `persons`; see `hold`."""
    count = rank(state, low, high, NOBODY, least, radius)
    return hold(state, persons, count, slots, found)


@kernel
def hold(state: State, persons: int, count: int, slots: Longs, found: Longs) -> int:
    """Hold the tuples of the `persons` that rank first; returns how many tuples.

    Their slots are written to the array. found[0] is the persons that are held, found[1] those
    that would rank next.
    """
    rules, register, window, split = state.rules, state.register, state.window, state.split
    item, stamp, held = window.item, fresh_stamp(register), 0
    found[0], found[1] = 0, 0
    for i in range(count):
        slot = split.order[split.key[i] & ((1 << KEY_SHIFT) - 1)]
        new = True
        if rules.count_persons:
            new = first_sight(split.seen, stamp, item[slot].person, 0) < 0
        if new and found[0] == persons:
            found[1] += 1
        elif found[1] == 0:
            found[0] += 1 if new else 0
            slots[held] = slot
            held += 1
    for i in range(held):
        split.order[0] = slots[i]
        depart(state, item[slots[i]].owner, split.order, 1, HELD)
    return held


@kernel
def let_go(state: State, slots: Longs) -> None:
    """These tuples are no longer held: each goes into its best cluster."""
    for i in range(slots.shape[0]):
        push(state, slots[i])


@kernel
def sort_keys(key: Longs, count: int) -> None:
    """Heap sort, ascending: in place, and without a bad case."""
    start, end = count // 2, count
    while end > 1:
        if start > 0:
            start -= 1
        else:
            end -= 1
            key[end], key[0] = key[0], key[end]
        root = start
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and key[child] < key[child + 1]:
                child += 1
            if key[root] >= key[child]:
                break
            key[root], key[child] = key[child], key[root]
            root = child


@kernel
def publish_jointly(
    state: State,
    slots: Longs,
    class_id: int,
    low: Floats,
    high: Floats,
    node: Ints,
    code_low: Ints,
    code_high: Ints,
    loss: int,
) -> None:
    """Publish held tuples with a class that was proved elsewhere, and keep it for reuse if good.

    With no tuples: learn that the class exists.
    """
    rules, register, window, out = state.rules, state.register, state.window, state.out
    begin(state)
    row = out.made[1]
    out.made[1] = row + 1
    out.class_id[row] = class_id
    out.fresh[row] = JOINT_CLASS
    for d in range(rules.numeric):
        out.low[row, d] = low[d]
        out.high[row, d] = high[d]
    for a in range(rules.categorical):
        out.node[row, a] = node[a]
    for i in range(slots.shape[0]):
        window.item[slots[i]].owner = NOBODY
        emit(register, window, out, slots[i], row)
    if settle_tau(rules, register, state.recent, loss):
        remember(rules, state.trees, register, state.reusable, out, row, code_low, code_high, loss)
