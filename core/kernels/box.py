"""Geometry: the box of some tuples, its loss, and what one more tuple would add."""

from __future__ import annotations

from core.kernels.counts import wide
from core.kernels.jit import leaf
from core.kernels.layout import Ints, Rules, Trees


@leaf
def common_ancestor(trees: Trees, attribute: int, node: int, first: int, last: int) -> int:
    """The lowest node at or above `node` that covers the leaves first..last."""
    base = trees.tree[attribute].node
    while trees.node[base + node].first > first or trees.node[base + node].last < last:
        node = trees.node[base + node].parent
    return node


@leaf
def cost_of(trees: Trees, attribute: int, node: int) -> int:
    """VInfoLoss of the node, in 1/GRID."""
    return trees.node[trees.tree[attribute].node + node].cost


@leaf
def box_loss(rules: Rules, trees: Trees, low: Ints, high: Ints) -> int:
    """InfoLoss of the box, summed over the attributes, in 1/GRID."""
    loss = 0
    for d in range(rules.numeric):
        loss += high[d] - low[d]
    for a in range(rules.categorical):
        d = rules.numeric + a
        node = common_ancestor(trees, a, low[d], low[d], high[d])
        loss += cost_of(trees, a, node)
    return loss


@leaf
def box_enlargement(
    rules: Rules, trees: Trees, low: Ints, high: Ints, code: Ints, limit: int
) -> int:
    """Enlargement of the box when the tuple joins it; stops adding up once it reaches `limit`."""
    more = wide(0)
    for d in range(rules.numeric):
        under, over = low[d] - code[d], code[d] - high[d]
        outside = under if under > over else over
        more += outside if outside > 0 else 0
    for a in range(rules.categorical):
        d = rules.numeric + a
        if more < limit and (code[d] < low[d] or code[d] > high[d]):
            node = common_ancestor(trees, a, low[d], low[d], high[d])
            wider = common_ancestor(trees, a, node, code[d], code[d])
            more += cost_of(trees, a, wider) - cost_of(trees, a, node)
    return more


@leaf
def box_start(low: Ints, high: Ints, code: Ints) -> None:
    """Make it the box of this one tuple."""
    for d in range(code.shape[0]):
        low[d] = code[d]
        high[d] = code[d]


@leaf
def box_add(low: Ints, high: Ints, code: Ints) -> None:
    """Make the box enclose this tuple too."""
    for d in range(code.shape[0]):
        value = code[d]
        low[d] = value if value < low[d] else low[d]
        high[d] = value if value > high[d] else high[d]
