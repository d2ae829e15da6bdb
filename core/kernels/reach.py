"""How far a class reaches beyond the box that was proposed for it.

`reach` has a byte for the lower ends of the numeric attributes, then one for their upper ends:
points of the grid that boxes travel on (core.boxes). Then comes a byte for each categorical
attribute: levels above the box's node. The reach of a union is the larger of each byte, so the
relay can unite votes without a schema.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.kernels.box import common_ancestor, cost_of
from core.kernels.counts import wide
from core.kernels.jit import kernel, leaf
from core.kernels.layout import GRID, NOBODY, Floats, Ints, Longs, Rules, Trees, Window

REACH_MAX: Final = 255
# Rows of a table with a column per numeric attribute.
DOMAIN_LOW: Final = 0
DOMAIN_HIGH: Final = 1
UNIT: Final = 2  # published bounds are whole multiples of it,
PARTS: Final = 3  # or of 1/PARTS where it is below 1; 0 otherwise
POINTS: Final = 4  # the last point of the grid that boxes travel on

Reach = NDArray[np.uint8]


@kernel
def measure_reach(
    rules: Rules,
    trees: Trees,
    window: Window,
    domain: Floats,
    slots: Longs,
    low: Ints,
    high: Ints,
    reach: Reach,
) -> None:
    """The reach of these tuples."""
    numeric = rules.numeric
    for j in range(reach.shape[0]):
        reach[j] = 0
    for i in range(slots.shape[0]):
        code = window.code[slots[i]]
        for d in range(numeric):
            points = wide(domain[POINTS, d])
            # A coordinate is rounded: one that is next to a point is on it.
            under = point_above(low[d], points) - point_below(code[d] + 1, points)
            over = point_above(code[d] - 1, points) - point_below(high[d], points)
            if code[d] < low[d] and under > reach[d]:
                reach[d] = under
            if code[d] > high[d] and over > reach[numeric + d]:
                reach[numeric + d] = over
        for a in range(rules.categorical):
            d = numeric + a
            node = common_ancestor(trees, a, low[d], low[d], high[d])
            top = common_ancestor(trees, a, node, code[d], code[d])
            levels = 0
            while node != top:
                node = trees.node[trees.tree[a].node + node].parent
                levels += 1
            reach[2 * numeric + a] = max(reach[2 * numeric + a], levels)


@leaf
def point_below(code: int, points: int) -> int:
    """The last point of the grid at or below a coordinate."""
    return wide(code) * points // GRID


@leaf
def point_above(code: int, points: int) -> int:
    """The first point of the grid at or above a coordinate."""
    return -(-wide(code) * points // GRID)


@kernel
def stretch(
    rules: Rules,
    trees: Trees,
    domain: Floats,
    low: Ints,
    high: Ints,
    reach: Reach,
    code_low: Ints,
    code_high: Ints,
    raw_low: Floats,
    raw_high: Floats,
    node: Ints,
) -> int:
    """The class behind a box and a reach: its codes, its published bounds, its nodes.

    Returns its loss, in 1/GRID.
    """
    loss, numeric = 0, rules.numeric
    for d in range(numeric):
        points = wide(domain[POINTS, d])
        first = max(point_above(low[d], points) - reach[d], 0)
        last = min(point_below(high[d], points) + reach[numeric + d], points)
        code_low[d] = first * GRID // points
        code_high[d] = -(-last * GRID // points)
        loss += code_high[d] - code_low[d]
        raw_low[d] = rounded(domain, d, code_low[d], 0.0)
        raw_high[d] = rounded(domain, d, code_high[d], 1.0)
    for a in range(rules.categorical):
        d = numeric + a
        base = trees.tree[a].node
        top = common_ancestor(trees, a, low[d], low[d], high[d])
        for _ in range(reach[2 * numeric + a]):
            if trees.node[base + top].parent >= 0:
                top = trees.node[base + top].parent
        node[a] = top
        code_low[d] = trees.node[base + top].first
        code_high[d] = trees.node[base + top].last
        loss += cost_of(trees, a, top)
    return loss


@leaf
def rounded(domain: Floats, d: int, code: int, up: float) -> float:
    """The value at a grid coordinate, rounded to a short number: down, or up when `up` is 1.

    A value that is a short number already, but for the grid, stays that number.
    """
    low, high = domain[DOMAIN_LOW, d], domain[DOMAIN_HIGH, d]
    step = (high - low) / GRID
    value = low + code * step
    parts = domain[PARTS, d]
    scaled = value * parts if parts > 0 else value / domain[UNIT, d]
    slack = step * parts if parts > 0 else step / domain[UNIT, d]
    nearest = np.rint(scaled)
    if abs(scaled - nearest) > slack:
        nearest = np.ceil(scaled) if up > 0 else np.floor(scaled)
    short = nearest / parts if parts > 0 else nearest * domain[UNIT, d]
    return min(max(short, low), high)


@kernel
def cover(
    rules: Rules,
    trees: Trees,
    window: Window,
    domain: Floats,
    slots: Longs,
    low: Ints,
    high: Ints,
    reach: Reach,
    code_low: Ints,
    code_high: Ints,
    raw_low: Floats,
    raw_high: Floats,
    node: Ints,
) -> int:
    """The reach of these tuples, such that the published bounds enclose their values.

    A value may lie outside by less than the grid can say: its reach is then one step more. Where
    that is of no help the tuple goes behind the others. Returns how many are covered.
    """
    count = slots.shape[0]
    measure_reach(rules, trees, window, domain, slots, low, high, reach)
    i = 0
    stretch(rules, trees, domain, low, high, reach, code_low, code_high, raw_low, raw_high, node)
    while i < count:
        stray = NOBODY
        for d in range(rules.numeric):
            value = window.raw[slots[i], d]
            if value < raw_low[d]:
                stray = d
            elif value > raw_high[d]:
                stray = rules.numeric + d
        if stray == NOBODY:
            i += 1
        elif reach[stray] < REACH_MAX:
            reach[stray] += 1
            stretch(
                rules, trees, domain, low, high, reach, code_low, code_high, raw_low, raw_high, node
            )
        else:
            count -= 1
            slots[i], slots[count] = slots[count], slots[i]
    return count
