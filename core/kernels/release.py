"""output_cluster: at once, as the paper has it, or in line and bit by bit.

CASTLE publishes a whole cluster at the moment its oldest tuple expires. Splitting it costs
O(m^2 D / k) for m tuples; for a cluster of tens of thousands the stream stands still. The bounded
way differs in two things. A cluster is first cut into blocks of at most BLOCK persons or
BLOCK_PARTS * k, and only inside a block the nearest are sought: O(m D (log m + BLOCK_PARTS)). And
tuples expire a SLACK-th of the delay early: a cluster that is due then stands in line, and every
arrival pays for a share of cutting and publishing it, at a rate that has it done in time.
"""

from __future__ import annotations

from typing import Final

from core.kernels.cut import count_persons, cut
from core.kernels.jit import kernel
from core.kernels.layout import (
    CREDIT,
    DEPTH,
    IN_LINE,
    NOBODY,
    PAYING,
    PAYING_FIRST,
    PENDING,
    POSITION,
    RATE,
    RELEASED,
    WAITING,
    WAITING_FIRST,
    Ints,
    State,
    Window,
)
from core.kernels.member import depart
from core.kernels.publish import publish

# Persons in a block: this many, or as many as make BLOCK_PARTS parts.
BLOCK: Final = 512
BLOCK_PARTS: Final = 16
# The share of the delay in which a cluster that is due is published: less of it for short lines.
SLACK: Final = 16
LONG_SLACK: Final = 8
# A window of so many classes may come due as a whole and makes a long line.
LONG_CLASSES: Final = 2_048
# Tuples that a cut passes over for the price of one that is published.
CUT_SHARE: Final = 32
# Credit is counted in fractions of a tuple.
CREDIT_UNIT: Final = 1_024


@kernel
def output_cluster(state: State, cluster: int) -> None:
    """Publish the cluster (CASTLE, output_cluster): now, or in line."""
    rules, register, window, order = state.rules, state.register, state.window, state.split.order
    register[RELEASED] += 1
    members = gather(window, order, state.clusters.meta[cluster].head)
    depart(state, cluster, order, members, IN_LINE)
    if not rules.cut:
        persons = count_persons(rules, register, window, state.split.seen, order, 0, members)
        publish(state, order, 0, members, persons)
        return
    for i in range(members):
        window.item[order[i]].after = order[i + 1] if i + 1 < members else NOBODY
    waiting = state.line.waiting
    waiting[(register[WAITING_FIRST] + register[WAITING]) % waiting.shape[0]] = order[0]
    register[WAITING] += 1
    register[PENDING] += members
    # Each cluster is paid for in equal shares by the arrivals until its deadline, a third more for
    # the cuts. What came earlier is then paid for in full before its own deadline.
    arrivals = max(1, rules.delay - rules.soft_delay)
    last = (register[PAYING_FIRST] + register[PAYING]) % state.line.paying.shape[0]
    register[PAYING] += 1
    state.line.paying[last].until = register[POSITION] + arrivals
    state.line.paying[last].rate = (members * CREDIT_UNIT * 4 // 3) // arrivals + 1
    register[RATE] += state.line.paying[last].rate


@kernel
def gather(window: Window, order: Ints, head: int) -> int:
    """Lay the list of tuples out in `order`; returns how many."""
    members, slot = 0, head
    while slot != NOBODY:
        order[members] = slot
        members += 1
        slot = window.item[slot].after
    return members


@kernel
def work_off(state: State, deadline: int) -> None:
    """What one arrival pays towards the clusters in line; the tuple at `deadline` cannot wait."""
    register, paying = state.register, state.line.paying
    while register[PAYING] > 0 and paying[register[PAYING_FIRST]].until < register[POSITION]:
        register[RATE] -= paying[register[PAYING_FIRST]].rate
        register[PAYING_FIRST] = (register[PAYING_FIRST] + 1) % paying.shape[0]
        register[PAYING] -= 1
    register[CREDIT] += register[RATE]
    while register[PENDING] > 0 and register[CREDIT] > 0:
        work_once(state)
    decide_in_line(state, deadline)


@kernel
def decide_in_line(state: State, slot: int) -> None:
    """Work until the tuple, if it stands in line, is published."""
    while state.window.item[slot].owner == IN_LINE:
        work_once(state)


@kernel
def work_once(state: State) -> None:
    """Cut or publish one range of the cluster that is first in line."""
    register, line = state.register, state.line
    if register[DEPTH] == 0:
        head = line.waiting[register[WAITING_FIRST]]
        register[WAITING_FIRST] = (register[WAITING_FIRST] + 1) % line.waiting.shape[0]
        register[WAITING] -= 1
        line.stack[0, 0] = 0
        line.stack[0, 1] = gather(state.window, line.order, head)
        register[DEPTH] = 1
    depth = register[DEPTH]
    tuples = line.stack[depth - 1, 1] - line.stack[depth - 1, 0]
    register[DEPTH] = divide(state, line.order, line.stack, depth)
    if register[DEPTH] > depth:
        register[CREDIT] -= tuples * CREDIT_UNIT // CUT_SHARE
    else:
        register[CREDIT] -= tuples * CREDIT_UNIT
        register[PENDING] -= tuples
    if register[PENDING] == 0:
        register[RATE], register[CREDIT], register[PAYING] = 0, 0, 0


@kernel
def divide(state: State, order: Ints, stack: Ints, depth: int) -> int:
    """Take the last range off the stack: cut it in two that go back, or publish it.

    Returns the new depth. Every range on the stack holds k persons and l values.
    """
    rules, register, window, split = state.rules, state.register, state.window, state.split
    start, stop = stack[depth - 1, 0], stack[depth - 1, 1]
    persons = count_persons(rules, register, window, split.seen, order, start, stop)
    if persons > max(BLOCK, BLOCK_PARTS * rules.k):
        middle = cut(rules, register, window, split, order, start, stop)
        if middle != NOBODY:
            stack[depth - 1, 0], stack[depth - 1, 1] = middle, stop
            stack[depth, 0], stack[depth, 1] = start, middle
            return depth + 1
    publish(state, order, start, stop, persons)
    return depth - 1
