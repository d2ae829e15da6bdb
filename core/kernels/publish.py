"""Publishing: parts become classes, tau follows, and the good classes are kept for reuse."""

from __future__ import annotations

import numpy as np

from core.kernels.box import box_loss, common_ancestor
from core.kernels.jit import kernel, leaf
from core.kernels.layout import (
    CLASS_STEP,
    CLASSES,
    DELAY_MAX,
    FORMED,
    FORMED_HERE,
    NOBODY,
    POSITION,
    SPLITS,
    TAU_COUNT,
    TAU_NEXT,
    TAU_SUM,
    Ints,
    Longs,
    Outcomes,
    Rules,
    State,
    Trees,
    Window,
)
from core.kernels.reuse import remember
from core.kernels.split import one_part, split_knn
from core.kernels.split_l import split_l


@leaf
def emit(register: Longs, window: Window, out: Outcomes, slot: int, row: int) -> None:
    """Decide the tuple's outcome: the class in this row of the table, or SUPPRESSED."""
    place, latest = out.made[0], register[POSITION] - 1
    later = (latest - slot) & (window.item.shape[0] - 1)
    register[DELAY_MAX] = max(register[DELAY_MAX], later)
    out.made[0] = place + 1
    out.decision[place].position = latest - later
    out.decision[place].row = row


@kernel
def publish(state: State, order: Ints, start: int, stop: int, persons: int) -> None:
    """Split the members in order[start:stop] if they can be, and publish each part as a class."""
    rules, trees, register, window = state.rules, state.trees, state.register, state.window
    split, out = state.split, state.out
    # Line 1: at least 2k persons (and l values, which they are known to have: section 4.2).
    if persons < 2 * rules.k:
        parts = one_part(window, split, order, start, stop)
    else:
        register[SPLITS] += 1
        if rules.cut or rules.l <= 1:
            parts = split_knn(rules, trees, register, window, split, order, start, stop)
        else:
            parts = split_l(rules, trees, register, window, split, order, start, stop)
    first_row = out.made[1]
    for part in range(parts):
        form_class(rules, trees, register, out, split.low[part], split.high[part])
    # Line 6.
    for i in range(start, stop):
        slot = order[i]
        row = first_row + window.item[slot].part
        window.item[slot].owner = NOBODY
        widen(rules, window, out, slot, row)
        emit(register, window, out, slot, row)
    # Lines 7-11.
    for part in range(parts):
        low, high = split.low[part], split.high[part]
        loss, row = box_loss(rules, trees, low, high), first_row + part
        if settle_tau(rules, register, state.recent, loss):
            remember(rules, trees, register, state.reusable, out, row, low, high, loss)


@leaf
def form_class(
    rules: Rules, trees: Trees, register: Longs, out: Outcomes, low: Ints, high: Ints
) -> None:
    """Open a row of the class table for a part, with its nodes; the bounds follow by `widen`."""
    row = out.made[1]
    out.made[1] = row + 1
    out.class_id[row] = register[CLASSES]
    out.fresh[row] = FORMED_HERE
    register[CLASSES] += register[CLASS_STEP]
    register[FORMED] += 1
    for d in range(rules.numeric):
        out.low[row, d] = np.inf
        out.high[row, d] = -np.inf
    for a in range(rules.categorical):
        d = rules.numeric + a
        out.node[row, a] = common_ancestor(trees, a, low[d], low[d], high[d])


@leaf
def widen(rules: Rules, window: Window, out: Outcomes, slot: int, row: int) -> None:
    """Published bounds are the raw values themselves, never their grid coordinates."""
    for d in range(rules.numeric):
        value = window.raw[slot, d]
        out.low[row, d] = value if value < out.low[row, d] else out.low[row, d]
        out.high[row, d] = value if value > out.high[row, d] else out.high[row, d]


@leaf
def settle_tau(rules: Rules, register: Longs, recent: Ints, loss: int) -> bool:
    """Update tau with the class's loss (line 7); True when it is reusable (line 8): below tau."""
    place = register[TAU_NEXT]
    if register[TAU_COUNT] < rules.mu:
        register[TAU_COUNT] += 1
    else:
        register[TAU_SUM] -= recent[place]
    recent[place] = loss
    register[TAU_SUM] += loss
    register[TAU_NEXT] = place + 1 if place + 1 < rules.mu else 0
    return rules.reuse_max > 0 and loss * register[TAU_COUNT] < register[TAU_SUM]
