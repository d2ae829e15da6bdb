"""dSplitCluster of the `paper` exchange (dCASTLE, section 4.9, Algorithm 4)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from site_node.paper_boxes import BoxSpace, Extent, Extents

Rows = NDArray[np.int64]


def split_cluster(
    space: BoxSpace,
    tuples: Extents,
    person: list[int],
    value: list[int],
    *,
    k: int,
    l: int,
    below: Callable[[int], int],
) -> list[list[int]]:
    """Split a cluster into parts with k persons and l values each; [] when that is not possible.

    A part is a list of rows of `tuples`. `below(n)` gives the next random number in 0..n-1.

    The share k * |B| / sum of a bucket is rounded up: rounded down, as the paper may be read, most
    parts fall short of k. Buckets are gone through from the rarest value to the most frequent one:
    the paper gives no order, and on Adult the frequent values first would lose a quarter more. For
    l = 1 there is one bucket, and a part is a random tuple and the k - 1
    that are nearest to it: the split of CASTLE, which the paper's k-anonymity version has.
    """
    buckets = _generate_buckets(person, value, by_value=l > 1)
    parts: list[list[int]] = []
    boxes: list[Extent] = []
    while len(buckets) >= l and (total := sum(map(len, buckets.values()))) >= k:
        # "random select a bucket from BS and random select a tuple from it"
        name = list(buckets)[below(len(buckets))]
        place = below(len(buckets[name]))
        seed = int(buckets[name][place])
        buckets[name] = np.delete(buckets[name], place)
        part, box = [seed], tuples.one(seed)
        for name, bucket in list(buckets.items()):
            # "select the first T_j (= k * |B_j| / sum) tuples and insert it into C_sub"
            share = -(-k * len(bucket) // total) if l > 1 else k - 1
            nearest, rest = _nearest(space, box, tuples, bucket, share)
            if len(nearest):
                part += nearest.tolist()
                box = space.joined(box, space.hull(tuples.some(nearest)))
            # "selected tuples are deleted from the bucket; and empty buckets are deleted as well"
            if len(rest):
                buckets[name] = rest
            else:
                del buckets[name]
        parts.append(part)
        boxes.append(box)
    if parts:
        _place_rest(
            space, tuples, [row for b in buckets.values() for row in b.tolist()], parts, boxes
        )
        _follow_persons(person, parts)
    return parts


def _generate_buckets(person: list[int], value: list[int], *, by_value: bool) -> dict[int, Rows]:
    """One tuple of each person, grouped by sensitive value; the rarest value first."""
    first: dict[int, int] = {}
    for row, who in enumerate(person):
        first.setdefault(who, row)
    rows: dict[int, list[int]] = {}
    for row in first.values():
        rows.setdefault(value[row] if by_value else 0, []).append(row)
    ranked = sorted(rows.items(), key=lambda item: len(item[1]))
    return {name: np.array(bucket, np.int64) for name, bucket in ranked}


def _nearest(
    space: BoxSpace, box: Extent, tuples: Extents, bucket: Rows, share: int
) -> tuple[Rows, Rows]:
    """The tuples of the bucket that enlarge the box least, nearest first, and the others."""
    distance = space.enlargements_by(box, tuples.some(bucket))
    order = np.argsort(distance, kind="stable")
    rest = np.sort(order[share:])
    return bucket[order[:share]], bucket[rest]


def _place_rest(
    space: BoxSpace, tuples: Extents, rest: list[int], parts: list[list[int]], boxes: list[Extent]
) -> None:
    """Push each remaining tuple into the part that it enlarges least."""
    around = Extents(*(np.array(column) for column in zip(*boxes, strict=True)))
    node_loss = np.array([space.node_loss(box.path) for box in boxes])
    for row in rest:
        single = tuples.one(row)
        wider = space.enlargements_of(around, node_loss, single)
        nearest = int(wider.argmin())
        parts[nearest].append(row)
        if wider[nearest] > 0:
            box = space.joined(around.one(nearest), single)
            around.edge[nearest], around.path[nearest], around.raw[nearest] = box
            node_loss[nearest] = space.node_loss(box.path)


def _follow_persons(person: list[int], parts: list[list[int]]) -> None:
    """Insert each tuple that stood for nobody where its person's tuple is."""
    chosen = {row for part in parts for row in part}
    if len(chosen) == len(person):
        return
    home = {person[row]: part for part in parts for row in part}
    for row, who in enumerate(person):
        if row not in chosen:
            home[who].append(row)
