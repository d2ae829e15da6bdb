"""Who is where: tuples in the lists and counts of their clusters and of the window."""

from __future__ import annotations

from core.kernels.counts import add, remove
from core.kernels.jit import kernel, leaf
from core.kernels.layout import (
    NOBODY,
    PERSONS,
    VALUES,
    Clusters,
    Counts,
    Ints,
    Longs,
    Records,
    Rules,
    State,
)
from core.kernels.select import close_cluster


@leaf
def link(
    rules: Rules, item: Records, clusters: Clusters, counts: Counts, slot: int, cluster: int
) -> None:
    """Append the tuple to the cluster's list and count its person and value there."""
    meta = clusters.meta
    tail = meta[cluster].tail if meta[cluster].tuples > 0 else NOBODY
    item[slot].before = tail
    item[slot].after = NOBODY
    if tail == NOBODY:
        meta[cluster].head = slot
    else:
        item[tail].after = slot
    meta[cluster].tail = slot
    meta[cluster].tuples += 1
    item[slot].owner = cluster
    if not rules.count_persons or add(counts.persons, item[slot].person, cluster) == 1:
        clusters.persons[cluster] += 1
    if rules.l > 1 and add(counts.values, item[slot].value, cluster) == 1:
        meta[cluster].values += 1


@leaf
def unlink(rules: Rules, item: Records, clusters: Clusters, counts: Counts, slot: int) -> None:
    """Take the tuple out of its cluster; the box stays, and so does an emptied cluster."""
    meta = clusters.meta
    cluster = item[slot].owner
    earlier, later = item[slot].before, item[slot].after
    if earlier == NOBODY:
        meta[cluster].head = later
    else:
        item[earlier].after = later
    if later == NOBODY:
        meta[cluster].tail = earlier
    else:
        item[later].before = earlier
    meta[cluster].tuples -= 1
    if not rules.count_persons or remove(counts.persons, item[slot].person, cluster) == 0:
        clusters.persons[cluster] -= 1
    if rules.l > 1 and remove(counts.values, item[slot].value, cluster) == 0:
        meta[cluster].values -= 1


@leaf
def enter_window(rules: Rules, register: Longs, item: Records, counts: Counts, slot: int) -> None:
    """Count the tuple's person and value among all that wait."""
    if not rules.count_persons or add(counts.persons, item[slot].person, NOBODY) == 1:
        register[PERSONS] += 1
    if rules.l > 1 and add(counts.values, item[slot].value, NOBODY) == 1:
        register[VALUES] += 1


@leaf
def leave_window(rules: Rules, register: Longs, item: Records, counts: Counts, slot: int) -> None:
    """The counterpart of enter_window."""
    if not rules.count_persons or remove(counts.persons, item[slot].person, NOBODY) == 0:
        register[PERSONS] -= 1
    if rules.l > 1 and remove(counts.values, item[slot].value, NOBODY) == 0:
        register[VALUES] -= 1


@kernel
def depart(state: State, cluster: int, order: Ints, count: int, owner: int) -> None:
    """The first `count` tuples in `order` leave their cluster and the window for `owner`."""
    rules, item, register = state.rules, state.window.item, state.register
    for i in range(count):
        unlink(rules, item, state.clusters, state.counts, order[i])
        leave_window(rules, register, item, state.counts, order[i])
        item[order[i]].owner = owner
    if state.clusters.meta[cluster].tuples == 0:
        close_cluster(rules, state.trees, register, state.clusters, cluster)
