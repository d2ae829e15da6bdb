"""The recount in front of every release, by other means than the counts that led to it."""

from __future__ import annotations

from typing import Final

from core.kernels.jit import kernel, leaf
from core.kernels.layout import Ints, Outcomes, Records, Rules, Trees, Window

BY_PERSON: Final = 0
BY_VALUE: Final = 1


@kernel
def recount(
    rules: Rules,
    item: Records,
    decision: Records,
    by: int,
    need: int,
    member: Ints,
    distinct: Ints,
) -> None:
    """distinct[row] = how many persons (or values) were decided into that row of the class table.

    Counting a row stops at `need`.

    A set of (key, row) pairs made for this one question: it shares nothing with the running counts
    that the clusters keep. `member` is its space, a power of two larger than the decisions.
    """
    mask, ring = member.shape[0] - 1, item.shape[0] - 1
    member[:] = -1
    distinct[:] = 0
    for i in range(decision.shape[0]):
        row = decision[i].row
        if row < 0 or distinct[row] >= need:
            continue
        key = key_of(rules, item, decision[i].position, ring, by)
        place = ((key ^ (row << 40)) * 0x2545F4914F6CDD1D >> 24) & mask
        while member[place] >= 0:
            known = decision[member[place]]
            if known.row == row and key_of(rules, item, known.position, ring, by) == key:
                break
            place = (place + 1) & mask
        if member[place] < 0:
            member[place] = i
            distinct[row] += 1


@leaf
def key_of(rules: Rules, item: Records, position: int, ring: int, by: int) -> int:
    """What is counted: the sensitive value, the person, or the tuple where each is a person."""
    if by == BY_VALUE:
        return item[position & ring].value
    return item[position & ring].person if rules.count_persons else position


@kernel
def first_outside(
    rules: Rules, trees: Trees, window: Window, decision: Records, out: Outcomes
) -> int:
    """The first decided tuple whose values are not inside its class as published, or -1."""
    mask = window.item.shape[0] - 1
    for i in range(decision.shape[0]):
        row = decision[i].row
        if row < 0:
            continue
        slot = decision[i].position & mask
        for d in range(rules.numeric):
            value = window.raw[slot, d]
            if not (out.low[row, d] <= value and value <= out.high[row, d]):
                return i
        for a in range(rules.categorical):
            value = window.code[slot, rules.numeric + a]
            node = trees.node[trees.tree[a].node + out.node[row, a]]
            if not (node.first <= value and value <= node.last):
                return i
    return -1
