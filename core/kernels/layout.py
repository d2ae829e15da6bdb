"""The arrays a site's state is made of, by name.

Shapes: D quasi-identifiers, the first N numeric and then the C categorical ones; B cluster slots
(beta rounded up to whole vectors); R window slots (a power of two); L leaves of all hierarchies
together; V nodes of all hierarchies together.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

# A numeric domain is GRID wide and the root of every hierarchy costs GRID: losses are integers.
GRID_BITS: Final = 24
GRID: Final = 1 << GRID_BITS

# The enlargement of a slot that holds no cluster: larger than any sum over QI_MAX attributes.
CLOSED: Final = np.int32(2**31 - 1)
# Owners that are no cluster: the outcome is decided; the cluster stands in line to be published.
NOBODY: Final = -1
IN_LINE: Final = -2
# Held for a class of several sites: in no cluster, and not decided (see joint.py).
HELD: Final = -3

# Class index of a tuple that is published with the most general values.
SUPPRESSED: Final = -1

# Where a class of the table comes from: formed by this call, or proved before or elsewhere.
REUSED_CLASS: Final = 0
FORMED_HERE: Final = 1
JOINT_CLASS: Final = 2

# Registers: the scalars of the state, in one int64 array.
POSITION: Final = 0  # position of the next tuple to arrive
EXPIRED: Final = 1  # every tuple before this position is decided or in line
OPEN: Final = 2  # |Gamma|, the number of open clusters
RANDOM: Final = 3  # state of the generator
CLASSES: Final = 4  # id of the next class
TAU_SUM: Final = 5  # sum of the losses of the last mu classes
TAU_COUNT: Final = 6  # how many of them there are
TAU_NEXT: Final = 7  # where the next one goes
REUSE_COUNT: Final = 8  # |Omega|
REUSE_NEXT: Final = 9  # slot of Omega that is overwritten next
PERSONS: Final = 10  # distinct persons in the window
VALUES: Final = 11  # distinct sensitive values in the window
# Outcome statistics, by the cases of delay_constraint.
RELEASED: Final = 12
REUSED: Final = 13
OUTLIERS: Final = 14
TOO_FEW: Final = 15
MERGED: Final = 16
SPLITS: Final = 17
REFUSED: Final = 18  # suppressed on arrival, by the schema's policy
OPENED: Final = 19
STAMP: Final = 20  # ever-growing mark for the scratch set, which is never cleared
STEP: Final = 21  # number of the call
PAYING: Final = 29  # clusters that arrivals still pay for
PAYING_FIRST: Final = 30  # place of the first of these
CLOCK: Final = 31  # the latest time that was told, ns
DECIDED: Final = 28  # every tuple before this position has its outcome
# Clusters in line to be published (see release.py).
PENDING: Final = 22  # tuples in them
WAITING: Final = 23  # clusters whose turn has not come
WAITING_FIRST: Final = 24  # place of the first of these
DEPTH: Final = 25  # ranges of the cluster whose turn it is
RATE: Final = 26  # what an arrival pays, in 1/CREDIT_UNIT tuples
CREDIT: Final = 27  # what is paid and not yet used
DELAY_MAX: Final = 32  # most records accepted after one before its outcome was decided
CLASS_STEP: Final = 33  # what the next class's id is more than the last one's
FORMED: Final = 34  # classes formed here
# Classes of several sites (see joint.py).
LEAD: Final = 35  # arrivals before its deadline at which a tuple comes due; 0: this site is alone
DUE: Final = 36  # slot of the tuple that stopped the call, or NOBODY
OVERDUE: Final = 37  # 1: it cannot wait any longer
REGISTERS: Final = 48

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Records = NDArray[Any]


# One record per tuple, node, cluster ...: fields that are used together lie together, and a kernel
# is handed few arrays instead of many.
ITEM: Final = np.dtype(
    [
        ("person", np.int64),
        ("value", np.int64),  # the sensitive value
        ("arrived", np.int64),  # time of arrival, ns
        ("owner", np.int32),  # its cluster, IN_LINE, or NOBODY
        ("after", np.int32),  # next tuple of the same cluster
        ("before", np.int32),
        ("part", np.int32),  # which part of a split it is in
        ("chain", np.int32),  # next tuple of the same person in that cluster
    ],
    align=True,
)
NODE: Final = np.dtype(
    [
        ("parent", np.int32),  # -1 at a root
        ("first", np.int32),  # first leaf under the node
        ("last", np.int32),  # last leaf under the node
        ("cost", np.int32),  # VInfoLoss of the node, in 1/GRID
    ]
)
TREE: Final = np.dtype(
    [
        ("node", np.int64),  # where the hierarchy's nodes start
        ("leaf", np.int64),  # where its leaves start among all L leaves
        ("leaves", np.int64),
    ]
)
CLUSTER: Final = np.dtype(
    [
        ("values", np.int32),  # distinct sensitive values: C.diversity
        ("tuples", np.int32),
        ("head", np.int32),  # its tuples, oldest first
        ("tail", np.int32),
        ("free", np.int32),  # stack of free slots
        ("serial", np.int32),  # how many clusters were opened before it
    ]
)
COUNT: Final = np.dtype([("key", np.int64), ("owner", np.int32), ("count", np.int32)])
SEEN: Final = np.dtype([("key", np.int64), ("stamp", np.int64), ("note", np.int64)])
BUCKET: Final = np.dtype([("of", np.int32), ("start", np.int32), ("size", np.int32)])
CUT: Final = np.dtype([("gain", np.int64), ("at", np.int64)])
CLASS: Final = np.dtype(
    [("class_id", np.int64), ("row", np.int64), ("step", np.int64), ("loss", np.int64)]
)
SHARE: Final = np.dtype([("until", np.int64), ("rate", np.int64)])
DECISION: Final = np.dtype([("position", np.int64), ("row", np.int64)])


class Rules(NamedTuple):
    """The parameters, already validated."""

    k: int
    l: int
    delay: int
    soft_delay: int  # when a tuple expires; what then is in line is done by `delay`
    beta: int
    mu: int
    reuse_max: int
    numeric: int  # N
    categorical: int  # C
    count_persons: bool  # False: every tuple is its own person
    cut: bool  # True: the bounded split; False: the paper's


class Trees(NamedTuple):
    """All hierarchies, one after the other. Nodes: leaves first, in leftmost order."""

    node: Records  # [V] NODE
    tree: Records  # [C] TREE


class Window(NamedTuple):
    """The tuples that still wait, in a ring: position p is in slot p & (R - 1)."""

    item: Records  # [R] ITEM
    code: Ints  # [R, D] grid coordinate or leaf
    raw: Floats  # [R, N] numeric values as they came


class Clusters(NamedTuple):
    """The open clusters (Gamma), one slot each, attribute-major so that a scan is contiguous."""

    low: Ints  # [N, B]
    high: Ints  # [N, B]
    reach: Ints  # [L, B] enlargement that this leaf would cause
    node: Ints  # [C, B]
    closed: Ints  # [B] 0 for a cluster, CLOSED for a free slot
    loss: Ints  # [B]
    persons: Ints  # [B] distinct persons: C.size
    cost: Ints  # [B] enlargement by the tuple in hand
    meta: Records  # [B] CLUSTER


class Counts(NamedTuple):
    """How often a key occurs in a cluster, and in the window (under NOBODY): hash tables.

    A place whose count is 0 is free.
    """

    persons: Records  # COUNT
    values: Records  # COUNT


class Reusable(NamedTuple):
    """The reusable classes (Omega) with a bitmap index: a row per bin or leaf, a bit per class."""

    bits: Words  # [N * BINS + L, words]
    found: Words  # [words]
    meta: Records  # [reuse_max] CLASS; `row` holds in the class table of step `step` only
    low: Floats  # [reuse_max, N] bounds as published
    high: Floats
    node: Ints  # [reuse_max, C]
    pick: Ints  # [reuse_max] the classes that contain the tuple in hand


class Split(NamedTuple):
    """Working space of one split; nothing in it outlives the call."""

    order: Ints  # [R] members of the cluster being released
    spare: Ints  # [R]
    rep: Ints  # [R] one tuple per person
    column: Ints  # [D, R] codes of the representatives, attribute-major
    distance: Ints  # [R]
    key: Longs  # [R] a distance and the slot it belongs to
    bucket: Records  # [R] BUCKET
    leaf_cost: Ints  # [largest hierarchy]
    low: Ints  # [parts, D] box of each part
    high: Ints
    sample: Ints  # [SAMPLE]
    cut: Records  # [D] CUT: the best cut of each attribute; gain 0 where there is none
    scale: Longs  # [D] loss of one step of a code: 1 for numeric, GRID/(leaves-1) for a leaf
    seen: Records  # SEEN


class Line(NamedTuple):
    """Clusters that are published bit by bit."""

    waiting: Ints  # [clusters] ring of heads of the lists whose turn has not come
    order: Ints  # [R] members of the one whose turn it is
    stack: Ints  # [parts, 2] its ranges that are still to be cut or published
    paying: Records  # [clusters] ring of SHARE: what arrivals pay for a cluster, and until when


class Outcomes(NamedTuple):
    """What one call decided: tuples with the row of their class, and the table of classes."""

    made: Longs  # [3] tuples, classes, number of the call
    decision: Records  # DECISION; row is an index into the class table, or SUPPRESSED
    class_id: Longs
    fresh: Ints  # FORMED_HERE, REUSED_CLASS or JOINT_CLASS
    low: Floats  # [., N]
    high: Floats
    node: Ints  # [., C]


class State(NamedTuple):
    """Everything a kernel may touch."""

    rules: Rules
    trees: Trees
    register: Longs
    window: Window
    clusters: Clusters
    counts: Counts
    reusable: Reusable
    recent: Ints  # [mu] losses of the last classes, for tau
    line: Line
    split: Split
    out: Outcomes


def power_of_two(at_least: int) -> int:
    """The smallest power of two that is not below `at_least`."""
    return 1 << max(0, at_least - 1).bit_length()


def empty(shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros that are really there; a dimension of nothing becomes one that no kernel touches.

    `np.zeros` leaves the pages to be mapped at first touch, which would be in mid-stream.
    """
    dims = (shape,) if isinstance(shape, int) else shape
    array = np.empty(tuple(max(1, dim) for dim in dims), dtype)
    array.view(np.uint8).fill(0)
    return array
