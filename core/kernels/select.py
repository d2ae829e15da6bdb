"""best_selection, and the care of the open clusters' boxes."""

from __future__ import annotations

from core.kernels.box import common_ancestor, cost_of
from core.kernels.jit import kernel, leaf
from core.kernels.layout import (
    CLOSED,
    GRID,
    NOBODY,
    OPEN,
    OPENED,
    TAU_COUNT,
    TAU_SUM,
    Clusters,
    Ints,
    Longs,
    Rules,
    Trees,
)


@leaf
def enlargements(rules: Rules, trees: Trees, clusters: Clusters, code: Ints) -> None:
    """clusters.cost[c] = Enlargement(C, t) for every slot; CLOSED where there is no cluster."""
    cost = clusters.cost
    slots = cost.shape[0]
    for c in range(slots):
        cost[c] = clusters.closed[c]
    for d in range(rules.numeric):
        value = code[d]
        low = clusters.low[d]
        high = clusters.high[d]
        for c in range(slots):
            below = low[c] - value
            above = value - high[c]
            outside = below if below > above else above
            cost[c] += outside if outside > 0 else 0
    for a in range(rules.categorical):
        reach = clusters.reach[trees.tree[a].leaf + code[rules.numeric + a]]
        for c in range(slots):
            cost[c] += reach[c]


@leaf
def best_selection(
    rules: Rules, trees: Trees, register: Longs, clusters: Clusters, code: Ints
) -> int:
    """The cluster to push the tuple into, or NOBODY to create one (CASTLE, best_selection)."""
    if register[OPEN] == 0:
        return NOBODY
    enlargements(rules, trees, clusters, code)
    cost, persons, loss = clusters.cost, clusters.persons, clusters.loss
    slots = cost.shape[0]
    # Lines 5-6: the minimum enlargement.
    least = CLOSED
    for c in range(slots):
        least = cost[c] if cost[c] < least else least
    # Lines 7-10: of those, the ones whose loss stays within tau. Losses are integers, so comparing
    # with the floor of tau is exact. Line 17: "any" with minimum size is the lowest slot.
    tau = register[TAU_SUM] // register[TAU_COUNT] if register[TAU_COUNT] > 0 else 0
    smallest_ok, smallest = CLOSED, CLOSED
    for c in range(slots):
        size = persons[c] if cost[c] == least else CLOSED
        within = size if loss[c] + least <= tau else CLOSED
        smallest = size if size < smallest else smallest
        smallest_ok = within if within < smallest_ok else smallest_ok
    if smallest_ok != CLOSED:
        for c in range(slots):
            if cost[c] == least and persons[c] == smallest_ok and loss[c] + least <= tau:
                return c
    # Lines 12-15: a new cluster, unless there are beta already.
    if register[OPEN] < rules.beta:
        return NOBODY
    for c in range(slots):
        if cost[c] == least and persons[c] == smallest:
            return c
    return NOBODY


@kernel
def paint(trees: Trees, clusters: Clusters, cluster: int, attribute: int, node: int) -> None:
    """Set the cluster's node and, for every leaf, the enlargement that leaf would now cause."""
    reach = clusters.reach
    base, leaves = trees.tree[attribute].node, trees.tree[attribute].leaf
    clusters.node[attribute, cluster] = node
    for i in range(trees.node[base + node].first, trees.node[base + node].last + 1):
        reach[leaves + i, cluster] = 0
    own, below = trees.node[base + node].cost, node
    above = trees.node[base + below].parent
    while above >= 0:
        more = trees.node[base + above].cost - own
        for i in range(trees.node[base + above].first, trees.node[base + below].first):
            reach[leaves + i, cluster] = more
        for i in range(trees.node[base + below].last + 1, trees.node[base + above].last + 1):
            reach[leaves + i, cluster] = more
        below = above
        above = trees.node[base + below].parent


@leaf
def refresh_loss(rules: Rules, trees: Trees, clusters: Clusters, cluster: int) -> None:
    """Recompute InfoLoss(C) from its box."""
    loss = 0
    for d in range(rules.numeric):
        loss += clusters.high[d, cluster] - clusters.low[d, cluster]
    for a in range(rules.categorical):
        loss += cost_of(trees, a, clusters.node[a, cluster])
    clusters.loss[cluster] = loss


@kernel
def open_cluster(
    rules: Rules, trees: Trees, register: Longs, clusters: Clusters, code: Ints
) -> int:
    """Create a new cluster over the tuple (CASTLE, Algorithm 1, line 8) and return its slot."""
    cluster = clusters.meta[rules.beta - register[OPEN] - 1].free
    register[OPEN] += 1
    clusters.meta[cluster].serial = register[OPENED]
    register[OPENED] += 1
    for d in range(rules.numeric):
        clusters.low[d, cluster] = code[d]
        clusters.high[d, cluster] = code[d]
    for a in range(rules.categorical):
        paint(trees, clusters, cluster, a, code[rules.numeric + a])
    clusters.closed[cluster] = 0
    clusters.loss[cluster] = 0
    return cluster


@kernel
def close_cluster(
    rules: Rules, trees: Trees, register: Longs, clusters: Clusters, cluster: int
) -> None:
    """Take an emptied cluster out of the open set at once."""
    for d in range(rules.numeric):
        clusters.low[d, cluster] = 0
        clusters.high[d, cluster] = GRID
    for a in range(rules.categorical):
        leaves = trees.tree[a].leaf
        for i in range(trees.tree[a].leaves):
            clusters.reach[leaves + i, cluster] = 0
    clusters.closed[cluster] = CLOSED
    clusters.loss[cluster] = 0
    register[OPEN] -= 1
    clusters.meta[rules.beta - register[OPEN] - 1].free = cluster


@leaf
def enlarge(rules: Rules, trees: Trees, clusters: Clusters, cluster: int, code: Ints) -> None:
    """Make the cluster's box enclose the tuple."""
    for d in range(rules.numeric):
        if code[d] < clusters.low[d, cluster]:
            clusters.low[d, cluster] = code[d]
        if code[d] > clusters.high[d, cluster]:
            clusters.high[d, cluster] = code[d]
    for a in range(rules.categorical):
        value = code[rules.numeric + a]
        node = clusters.node[a, cluster]
        wider = common_ancestor(trees, a, node, value, value)
        if wider != node:
            paint(trees, clusters, cluster, a, wider)
    refresh_loss(rules, trees, clusters, cluster)
