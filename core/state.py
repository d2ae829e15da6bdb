"""A site's state: how the arrays are laid out for a schema and its parameters."""

from __future__ import annotations

from typing import Final

import numpy as np

from core.config import Parameters
from core.kernels.cut import SAMPLE
from core.kernels.layout import (
    BUCKET,
    CLASS,
    CLASS_STEP,
    CLOSED,
    CLUSTER,
    COUNT,
    CUT,
    DECISION,
    GRID,
    ITEM,
    NOBODY,
    NODE,
    RANDOM,
    REGISTERS,
    SEEN,
    SHARE,
    TREE,
    Clusters,
    Counts,
    Line,
    Outcomes,
    Records,
    Reusable,
    Rules,
    Split,
    State,
    Trees,
    Window,
    empty,
    power_of_two,
)
from core.kernels.release import LONG_CLASSES, LONG_SLACK, SLACK
from core.kernels.reuse import BINS
from core.schema import Schema

# Tuples one kernel call takes in; the window has room for them beside those that wait.
CHUNK_TUPLES: Final = 1_024
# Slots are padded to whole vectors (16 x 32 bit), so that a scan has no remainder loop.
_LANES: Final = 16


def new_state(schema: Schema, parameters: Parameters, seed: int) -> State:
    """The state before the first tuple."""
    rules = _rules(schema, parameters)
    trees = _trees(schema)
    slots = power_of_two(parameters.delay_tuples + CHUNK_TUPLES)
    leaves = int(trees.tree["leaves"].sum())
    register = np.zeros(REGISTERS, np.int64)
    register[RANDOM] = np.uint64(seed % 2**64).astype(np.int64)
    register[CLASS_STEP] = 1
    return State(
        rules=rules,
        trees=trees,
        register=register,
        window=_window(rules, slots),
        clusters=_clusters(rules, leaves),
        counts=Counts(
            persons=_counts(slots if rules.count_persons else 0),
            values=_counts(slots if rules.l > 1 else 0),
        ),
        reusable=_reusable(rules, leaves),
        recent=empty(rules.mu, np.int32),
        line=Line(
            waiting=empty(slots // rules.k + 2, np.int32),
            order=empty(slots, np.int32),
            stack=empty((slots // rules.k + 2, 2), np.int32),
            paying=empty(slots // rules.k + 2, SHARE),
        ),
        split=_split(rules, trees, slots),
        out=_outcomes(rules, slots),
    )


def _rules(schema: Schema, parameters: Parameters) -> Rules:
    cut = parameters.split == "cut"
    long = parameters.delay_tuples >= LONG_CLASSES * parameters.k
    slack = parameters.delay_tuples // (LONG_SLACK if long else SLACK) if cut else 0
    return Rules(
        k=parameters.k,
        l=parameters.l,
        delay=parameters.delay_tuples,
        soft_delay=parameters.delay_tuples - slack,
        beta=parameters.beta,
        mu=parameters.mu,
        reuse_max=parameters.reuse_max,
        numeric=len(schema.numeric),
        categorical=len(schema.categorical),
        count_persons=schema.person is not None,
        cut=cut,
    )


def _trees(schema: Schema) -> Trees:
    hierarchies = [a.hierarchy for a in schema.categorical if a.hierarchy is not None]
    node = empty(sum(len(h.names) for h in hierarchies), NODE)
    tree = empty(len(hierarchies), TREE)
    nodes, leaves = 0, 0
    for place, hierarchy in enumerate(hierarchies):
        tree[place] = nodes, leaves, hierarchy.leaf_count
        own = node[nodes : nodes + len(hierarchy.names)]
        own["parent"] = hierarchy.parents
        own["first"] = hierarchy.first_leaf
        own["last"] = hierarchy.last_leaf
        own["cost"] = np.rint(hierarchy.loss() * GRID)
        nodes += len(hierarchy.names)
        leaves += hierarchy.leaf_count
    return Trees(node=node, tree=tree)


def _window(rules: Rules, slots: int) -> Window:
    item = empty(slots, ITEM)
    item["owner"] = NOBODY
    return Window(
        item=item,
        code=empty((slots, rules.numeric + rules.categorical), np.int32),
        raw=empty((slots, rules.numeric), np.float64),
    )


def _clusters(rules: Rules, leaves: int) -> Clusters:
    slots = -(-rules.beta // _LANES) * _LANES
    meta = empty(slots, CLUSTER)
    meta["free"][: rules.beta] = np.arange(rules.beta)[::-1]
    return Clusters(
        low=empty((rules.numeric, slots), np.int32),
        high=np.full((max(1, rules.numeric), slots), GRID, np.int32),
        reach=empty((leaves, slots), np.int32),
        node=empty((rules.categorical, slots), np.int32),
        closed=np.full(slots, CLOSED, np.int32),
        loss=empty(slots, np.int32),
        persons=empty(slots, np.int32),
        cost=empty(slots, np.int32),
        meta=meta,
    )


def _counts(window_slots: int) -> Records:
    # Every tuple that waits is counted in its cluster and in the window; at most half full.
    return empty(power_of_two(4 * window_slots), COUNT)


def _reusable(rules: Rules, leaves: int) -> Reusable:
    words = -(-rules.reuse_max // 64)
    return Reusable(
        bits=empty((rules.numeric * BINS + leaves, words), np.uint64),
        found=empty(words, np.uint64),
        meta=empty(rules.reuse_max, CLASS),
        low=empty((rules.reuse_max, rules.numeric), np.float64),
        high=empty((rules.reuse_max, rules.numeric), np.float64),
        node=empty((rules.reuse_max, rules.categorical), np.int32),
        # One more than there are classes: a candidate is noted before it is checked.
        pick=empty(rules.reuse_max + 1, np.int32),
    )


def _split(rules: Rules, trees: Trees, slots: int) -> Split:
    attributes = rules.numeric + rules.categorical
    parts = slots // rules.k + 2
    leaves = trees.tree["leaves"]
    steps = [GRID // max(1, count - 1) for count in leaves[: rules.categorical].tolist()]
    return Split(
        order=empty(slots, np.int32),
        spare=empty(slots, np.int32),
        rep=empty(slots, np.int32),
        column=empty((attributes, slots), np.int32),
        distance=empty(slots, np.int32),
        key=empty(slots, np.int64),
        bucket=empty(slots, BUCKET),
        leaf_cost=empty(int(leaves.max()), np.int32),
        low=empty((parts, attributes), np.int32),
        high=empty((parts, attributes), np.int32),
        sample=empty(SAMPLE, np.int32),
        cut=empty(attributes, CUT),
        scale=np.array([1] * rules.numeric + steps, np.int64),
        seen=empty(power_of_two(2 * slots), SEEN),
    )


def _outcomes(rules: Rules, slots: int) -> Outcomes:
    # A call decides at most the window and its own arrivals; a class has k tuples or is reused.
    rows = slots // rules.k + min(rules.reuse_max, slots) + 2
    return Outcomes(
        made=np.zeros(3, np.int64),
        decision=empty(slots, DECISION),
        class_id=empty(rows, np.int64),
        fresh=empty(rows, np.int32),
        low=empty((rows, rules.numeric), np.float64),
        high=empty((rows, rules.numeric), np.float64),
        node=empty((rows, rules.categorical), np.int32),
    )
