"""The reusable classes (Omega): bounded, indexed by bitmaps, chosen from at random."""

from __future__ import annotations

from typing import Final

import numpy as np

from core.kernels.counts import below
from core.kernels.jit import kernel, leaf
from core.kernels.layout import (
    GRID_BITS,
    LEAD,
    NOBODY,
    REUSE_COUNT,
    REUSE_NEXT,
    Ints,
    Longs,
    Outcomes,
    Reusable,
    Rules,
    Trees,
    Window,
)

# A numeric domain has 64 bins in the index; the exact bounds are compared afterwards.
BIN_BITS: Final = 6
BINS: Final = 1 << BIN_BITS
_ONE = np.uint64(1)
_ALL = ~np.uint64(0)


@leaf
def bin_of(code: int) -> int:
    """The bin of a grid coordinate; the upper end of the domain belongs to the last bin."""
    place = code >> (GRID_BITS - BIN_BITS)
    return place if place < BINS else BINS - 1


@kernel
def remember(
    rules: Rules,
    trees: Trees,
    register: Longs,
    reusable: Reusable,
    out: Outcomes,
    row: int,
    low: Ints,
    high: Ints,
    loss: int,
) -> None:
    """Make the class in `row` of the class table reusable; the 64 oldest make room at once."""
    slot = register[REUSE_NEXT]
    register[REUSE_NEXT] = slot + 1 if slot + 1 < rules.reuse_max else 0
    register[REUSE_COUNT] = max(register[REUSE_COUNT], slot + 1)
    word, bit = slot >> 6, _ONE << np.uint64(slot & 63)
    if slot & 63 == 0:
        for line in range(reusable.bits.shape[0]):
            reusable.bits[line, word] = 0
    reusable.meta[slot].class_id = out.class_id[row]
    reusable.meta[slot].step = 0
    reusable.meta[slot].loss = loss
    for d in range(rules.numeric):
        reusable.low[slot, d] = out.low[row, d]
        reusable.high[slot, d] = out.high[row, d]
        for place in range(bin_of(low[d]), bin_of(high[d]) + 1):
            reusable.bits[d * BINS + place, word] |= bit
    for a in range(rules.categorical):
        reusable.node[slot, a] = out.node[row, a]
        node = trees.tree[a].node + out.node[row, a]
        line = rules.numeric * BINS + trees.tree[a].leaf
        for i in range(trees.node[node].first, trees.node[node].last + 1):
            reusable.bits[line + i, word] |= bit


@kernel
def find_reusable(
    rules: Rules, trees: Trees, register: Longs, reusable: Reusable, window: Window, slot: int
) -> int:
    """A reusable class that contains the tuple, or NOBODY (delay_constraint, lines 5-7).

    A random one, as in the paper; in an exchange the one that loses least: large classes contain
    more tuples, so that chance would favour them.
    """
    words = (register[REUSE_COUNT] + 63) >> 6
    found = reusable.found[:words]
    found[:] = _ALL
    for d in range(rules.numeric):
        line = reusable.bits[d * BINS + bin_of(window.code[slot, d])]
        for w in range(words):
            found[w] &= line[w]
    for a in range(rules.categorical):
        value = window.code[slot, rules.numeric + a]
        line = reusable.bits[rules.numeric * BINS + trees.tree[a].leaf + value]
        for w in range(words):
            found[w] &= line[w]
    # The index is exact for leaves; of numeric bounds it knows the bins only.
    count = 0
    for w in range(words):
        rest = found[w]
        while rest != 0:
            lowest = rest & (~rest + _ONE)
            rest ^= lowest
            candidate = (w << 6) + bit_number(lowest)
            reusable.pick[count] = candidate
            count += 1 if encloses(rules, reusable, window, candidate, slot) else 0
    if count == 0:
        return NOBODY
    if register[LEAD] == 0:
        return reusable.pick[below(register, count)]
    best = reusable.pick[0]
    for i in range(1, count):
        if reusable.meta[reusable.pick[i]].loss < reusable.meta[best].loss:
            best = reusable.pick[i]
    return best


@leaf
def encloses(rules: Rules, reusable: Reusable, window: Window, candidate: int, slot: int) -> bool:
    """Whether the class's published numeric bounds contain the tuple's values."""
    for d in range(rules.numeric):
        value = window.raw[slot, d]
        if value < reusable.low[candidate, d] or value > reusable.high[candidate, d]:
            return False
    return True


@leaf
def bit_number(word: np.uint64) -> int:
    """Which bit is set in a word with exactly one."""
    number = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(step) != 0:
            word >>= np.uint64(step)
            number += step
    return number
