"""What moves the stream on: time, arrivals, its end (CASTLE, Algorithm 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.kernels.expire import delay_constraint
from core.kernels.jit import kernel, leaf
from core.kernels.layout import (
    DECIDED,
    EXPIRED,
    NOBODY,
    PENDING,
    POSITION,
    REFUSED,
    STEP,
    SUPPRESSED,
    Floats,
    Ints,
    Longs,
    State,
)
from core.kernels.member import enter_window, link
from core.kernels.publish import emit
from core.kernels.release import decide_in_line, work_off
from core.kernels.select import best_selection, enlarge, open_cluster


@kernel
def advance(
    state: State,
    code: Ints,
    raw: Floats,
    person: Longs,
    value: Longs,
    general: NDArray[np.bool_],
    now: int,
    moment: int,
    ended: bool,
) -> None:
    """Decide what arrived at `moment` or earlier, take in tuples at time `now`, or end the stream.

    `general` marks tuples that the schema's policy suppresses for a bad value. The outcomes are in
    state.out until the next call.
    """
    rules, register, window = state.rules, state.register, state.window
    begin(state)
    mask = window.item.shape[0] - 1
    # Arrival times never decrease: the first tuple that is not late by the clock ends the search.
    late = register[POSITION] if ended else register[DECIDED]
    while late < register[POSITION] and window.item[late & mask].arrived <= moment:
        late += 1
    if late > register[DECIDED]:
        decide_before(state, late)
    for i in range(code.shape[0]):
        position = take_in(state, code, raw, person, value, general, i, now)
        # Lines 11-13: the tuple that is `delay` positions older expires.
        expiring = position - rules.soft_delay
        if expiring >= register[EXPIRED]:
            register[EXPIRED] = expiring + 1
            if window.item[expiring & mask].owner >= 0:
                delay_constraint(state, expiring & mask)
        if register[PENDING] > 0:
            work_off(state, (position - rules.delay) & mask)
        register[DECIDED] = max(register[DECIDED], position - rules.delay + 1)


@leaf
def begin(state: State) -> None:
    """A call begins: nothing is decided by it yet."""
    state.register[STEP] += 1
    made = state.out.made
    made[0], made[1], made[2] = 0, 0, state.register[STEP]


@leaf
def take_in(
    state: State,
    code: Ints,
    raw: Floats,
    person: Longs,
    value: Longs,
    general: NDArray[np.bool_],
    i: int,
    now: int,
) -> int:
    """Accept tuple i; returns its position."""
    rules, register, window = state.rules, state.register, state.window
    position = register[POSITION]
    register[POSITION] = position + 1
    slot = position & (window.item.shape[0] - 1)
    window.item[slot].arrived = now
    if general[i]:
        window.item[slot].owner = NOBODY
        register[REFUSED] += 1
        emit(register, window, state.out, slot, SUPPRESSED)
    else:
        for d in range(code.shape[1]):
            window.code[slot, d] = code[i, d]
        for d in range(rules.numeric):
            window.raw[slot, d] = raw[i, d]
        window.item[slot].person = person[i]
        window.item[slot].value = value[i]
        push(state, slot)
    return position


@leaf
def push(state: State, slot: int) -> None:
    """Put a new tuple into its best cluster, or into one of its own (lines 6-10)."""
    rules, trees, register, clusters = state.rules, state.trees, state.register, state.clusters
    code, item = state.window.code[slot], state.window.item
    cluster = best_selection(rules, trees, register, clusters, code)
    if cluster == NOBODY:
        cluster = open_cluster(rules, trees, register, clusters, code)
    elif clusters.cost[cluster] != 0:
        enlarge(rules, trees, clusters, cluster, code)
    enter_window(rules, register, item, state.counts, slot)
    link(rules, item, clusters, state.counts, slot, cluster)


@kernel
def decide_before(state: State, position: int) -> None:
    """Every tuple before `position` gets its outcome now, in arrival order, out of turn if need be.

    For what is late by the clock, and for the end of the stream.
    """
    register, item = state.register, state.window.item
    mask = item.shape[0] - 1
    while register[EXPIRED] < position:
        slot = register[EXPIRED] & mask
        register[EXPIRED] += 1
        if item[slot].owner >= 0:
            delay_constraint(state, slot)
    while register[DECIDED] < position:
        decide_in_line(state, register[DECIDED] & mask)
        register[DECIDED] += 1
