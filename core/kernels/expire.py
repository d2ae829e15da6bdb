"""delay_constraint with its five outcomes, and merge_clusters."""

from __future__ import annotations

from core.kernels.box import common_ancestor, cost_of
from core.kernels.counts import wide
from core.kernels.jit import kernel, leaf
from core.kernels.layout import (
    CLOSED,
    MERGED,
    NOBODY,
    OPEN,
    OUTLIERS,
    PERSONS,
    REUSE_COUNT,
    REUSED,
    REUSED_CLASS,
    SUPPRESSED,
    TOO_FEW,
    VALUES,
    Clusters,
    Outcomes,
    Reusable,
    Rules,
    State,
    Trees,
)
from core.kernels.member import depart, link, unlink
from core.kernels.publish import emit
from core.kernels.release import output_cluster
from core.kernels.reuse import find_reusable
from core.kernels.select import close_cluster, paint, refresh_loss


@leaf
def ready(rules: Rules, clusters: Clusters, cluster: int) -> bool:
    """Whether the cluster holds k persons and l values."""
    diverse = rules.l <= 1 or clusters.meta[cluster].values >= rules.l
    return diverse and clusters.persons[cluster] >= rules.k


@kernel
def delay_constraint(state: State, slot: int) -> None:
    """Decide the outcome of the expiring tuple (CASTLE, delay_constraint)."""
    rules, register, clusters = state.rules, state.register, state.clusters
    cluster = state.window.item[slot].owner
    if not ready(rules, clusters, cluster):
        row = row_without_cluster(state, slot, cluster)
        if row != MERGE:
            publish_alone(state, slot, row)
            return
        # Lines 20-21.
        register[MERGED] += 1
        merge_clusters(state, cluster)
    # Lines 2-3, and 21.
    output_cluster(state, cluster)


# What row_without_cluster answers when the tuple's cluster is to be merged.
MERGE = -2


@kernel
def row_without_cluster(state: State, slot: int, cluster: int) -> int:
    """The row to publish the tuple with when its cluster is not ready; MERGE for a merge."""
    rules, register, clusters = state.rules, state.register, state.clusters
    # Lines 5-9: a reusable class contains it.
    row = reusable_row(state, slot)
    if row != NOBODY:
        return row
    # Lines 10-16: an outlier, its cluster is smaller than more than half of the open ones.
    larger = 0
    for c in range(clusters.persons.shape[0]):
        larger += 1 if clusters.persons[c] > clusters.persons[cluster] else 0
    if 2 * larger > register[OPEN]:
        register[OUTLIERS] += 1
        return SUPPRESSED
    # Lines 17-19: all clusters together are too few. The paper adds up the clusters' sizes, which
    # counts a person of two clusters twice; we count the persons of the window.
    if register[PERSONS] < rules.k or (rules.l > 1 and register[VALUES] < rules.l):
        register[TOO_FEW] += 1
        return SUPPRESSED
    return MERGE


@kernel
def reusable_row(state: State, slot: int) -> int:
    """The row of a reusable class that contains the tuple, or NOBODY."""
    register, rules = state.register, state.rules
    if register[REUSE_COUNT] == 0:
        return NOBODY
    choice = find_reusable(rules, state.trees, register, state.reusable, state.window, slot)
    if choice == NOBODY:
        return NOBODY
    register[REUSED] += 1
    return row_of(rules, state.reusable, state.out, choice)


@kernel
def publish_alone(state: State, slot: int, row: int) -> None:
    """The tuple leaves its cluster and is published with this row, or suppressed."""
    state.split.order[0] = slot
    depart(state, state.window.item[slot].owner, state.split.order, 1, NOBODY)
    emit(state.register, state.window, state.out, slot, row)


@leaf
def row_of(rules: Rules, reusable: Reusable, out: Outcomes, choice: int) -> int:
    """The row of a reusable class in this call's class table; made when it is first needed."""
    meta, step = reusable.meta, out.made[2]
    if meta[choice].step != step:
        row = out.made[1]
        out.made[1] = row + 1
        out.class_id[row] = meta[choice].class_id
        out.fresh[row] = REUSED_CLASS
        for d in range(rules.numeric):
            out.low[row, d] = reusable.low[choice, d]
            out.high[row, d] = reusable.high[choice, d]
        for a in range(rules.categorical):
            out.node[row, a] = reusable.node[choice, a]
        meta[choice].row = row
        meta[choice].step = step
    return meta[choice].row


@kernel
def merge_clusters(state: State, cluster: int) -> None:
    """Merge in the cluster that enlarges this one least, until it is ready (merge_clusters)."""
    rules, trees, clusters, item = state.rules, state.trees, state.clusters, state.window.item
    while not ready(rules, clusters, cluster):
        nearest, least = NOBODY, wide(int(CLOSED))
        numeric_enlargements(rules, clusters, cluster)
        for other in range(clusters.closed.shape[0]):
            # The numeric part alone rules most clusters out.
            if other != cluster and clusters.cost[other] < least:
                more = merge_enlargement(rules, trees, clusters, cluster, other)
                if more < least:
                    nearest, least = other, more
        enclose(rules, trees, clusters, cluster, nearest)
        slot = clusters.meta[nearest].head
        while slot != NOBODY:
            later = item[slot].after
            unlink(rules, item, clusters, state.counts, slot)
            link(rules, item, clusters, state.counts, slot, cluster)
            slot = later
        close_cluster(rules, trees, state.register, clusters, nearest)


@kernel
def numeric_enlargements(rules: Rules, clusters: Clusters, cluster: int) -> None:
    """clusters.cost[c] = what merging c in adds to the numeric intervals; CLOSED where free."""
    cost = clusters.cost
    for c in range(cost.shape[0]):
        cost[c] = clusters.closed[c]
    for d in range(rules.numeric):
        low, high = clusters.low[d], clusters.high[d]
        own_low, own_high = low[cluster], high[cluster]
        for c in range(cost.shape[0]):
            under, over = own_low - low[c], high[c] - own_high
            more = (under if under > 0 else 0) + (over if over > 0 else 0)
            cost[c] += more if clusters.closed[c] == 0 else 0


@leaf
def merge_enlargement(
    rules: Rules, trees: Trees, clusters: Clusters, cluster: int, other: int
) -> int:
    """Enlargement of the cluster by the other one's box, given its numeric part in cost."""
    more = wide(clusters.cost[other])
    for a in range(rules.categorical):
        joint = joint_node(trees, clusters, a, cluster, other)
        more += cost_of(trees, a, joint) - cost_of(trees, a, clusters.node[a, cluster])
    return more


@leaf
def joint_node(trees: Trees, clusters: Clusters, attribute: int, cluster: int, other: int) -> int:
    """The lowest common ancestor of the two clusters' nodes."""
    own = clusters.node[attribute, cluster]
    theirs = trees.node[trees.tree[attribute].node + clusters.node[attribute, other]]
    return common_ancestor(trees, attribute, own, theirs.first, theirs.last)


@leaf
def enclose(rules: Rules, trees: Trees, clusters: Clusters, cluster: int, other: int) -> None:
    """Make the cluster's box enclose the other one's."""
    for d in range(rules.numeric):
        clusters.low[d, cluster] = min(clusters.low[d, cluster], clusters.low[d, other])
        clusters.high[d, cluster] = max(clusters.high[d, cluster], clusters.high[d, other])
    for a in range(rules.categorical):
        node = joint_node(trees, clusters, a, cluster, other)
        if node != clusters.node[a, cluster]:
            paint(trees, clusters, cluster, a, node)
    refresh_loss(rules, trees, clusters, cluster)
