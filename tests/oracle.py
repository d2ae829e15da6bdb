"""The machine once more: slow, plain and obviously right, for the kernels to be compared with.

It follows the pseudo-code of CASTLE (Cao, Carminati, Ferrari, Tan: "CASTLE: Continuously
Anonymizing Data Streams") line by line, on objects, lists and sets. It shares no code with
core.kernels, only the numbers that define the behaviour. Where the paper says "any", the kernels
promise an order, and so does this: clusters by the number of their slot, of equals the first.

Losses are integers, summed over the attributes, in 1/GRID: the mean of the paper times n.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from core.config import Parameters
from core.hierarchy import Hierarchy
from core.kernels.cut import SAMPLE, TRIES
from core.kernels.layout import GRID
from core.kernels.release import (
    BLOCK,
    BLOCK_PARTS,
    CREDIT_UNIT,
    CUT_SHARE,
    LONG_CLASSES,
    LONG_SLACK,
    SLACK,
)
from core.schema import Schema

# Reusable classes leave together, a machine word of them at a time.
EVICTED_TOGETHER = 64


@dataclass(frozen=True, kw_only=True)
class Record:
    """What comes in: grid coordinates and leaves, numeric values as they came."""

    code: tuple[int, ...]
    raw: tuple[float, ...]
    person: int
    value: int
    general: bool = False


@dataclass(frozen=True)
class Class:
    """A published generalisation."""

    class_id: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    node: tuple[int, ...]


@dataclass(frozen=True)
class Decision:
    """A record's outcome: the class it is published with, or None when it is suppressed."""

    position: int
    published: Class | None


@dataclass(frozen=True)
class Box:
    """Range intervals of the numeric attributes and nodes of the categorical (Definition 3.2)."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    node: tuple[int, ...]


@dataclass(eq=False)
class Tuple:
    """A record in the stream."""

    position: int
    arrived: int
    record: Record
    person: int
    box: Box
    cluster: Cluster | None = None
    in_line: bool = False

    @property
    def value(self) -> int:
        return self.record.value


@dataclass(eq=False)
class Cluster:
    """An open cluster. Its box never shrinks; its tuples are in the order they joined."""

    slot: int
    box: Box
    tuples: list[Tuple] = field(default_factory=list)
    persons: Counter[int] = field(default_factory=Counter)
    values: Counter[int] = field(default_factory=Counter)

    @property
    def size(self) -> int:
        """C.size: distinct persons, never tuples."""
        return len(self.persons)

    def take(self, t: Tuple) -> None:
        self.tuples.append(t)
        self.persons[t.person] += 1
        self.values[t.value] += 1
        t.cluster = self

    def lose(self, t: Tuple) -> None:
        self.tuples.remove(t)
        for counter, key in ((self.persons, t.person), (self.values, t.value)):
            counter[key] -= 1
            if counter[key] == 0:
                del counter[key]
        t.cluster = None


@dataclass(eq=False)
class Part:
    """A sub-cluster that a split makes."""

    box: Box
    tuples: list[Tuple]


class Tree:
    """A hierarchy as sets of leaves."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self.parents = [int(parent) for parent in hierarchy.parents]
        self.leaves: list[set[int]] = [set() for _ in self.parents]
        for leaf in range(hierarchy.leaf_count):
            node = leaf
            while node >= 0:
                self.leaves[node].add(leaf)
                node = self.parents[node]
        # VInfoLoss(v) = (|S_v| - 1) / (|S| - 1).
        others = max(1, hierarchy.leaf_count - 1)
        self.cost = [round((len(under) - 1) / others * GRID) for under in self.leaves]
        self.step = GRID // others
        self.known: dict[tuple[int, int], int] = {}

    def ancestor(self, node: int, other: int) -> int:
        """The lowest common ancestor."""
        if (node, other) not in self.known:
            above = node
            while not self.leaves[other] <= self.leaves[above]:
                above = self.parents[above]
            self.known[node, other] = above
        return self.known[node, other]


class Oracle:
    """CASTLE for one stream. `below(n)` gives the next random number in 0..n-1."""

    def __init__(
        self, schema: Schema, parameters: Parameters, *, below: Callable[[int], int]
    ) -> None:
        self.parameters = parameters
        self.below = below
        self.numeric = len(schema.numeric)
        self.trees = [Tree(a.hierarchy) for a in schema.categorical if a.hierarchy is not None]
        self.everyone_once = schema.person is None
        self.bounded = parameters.split == "cut"
        long = parameters.delay_tuples >= LONG_CLASSES * parameters.k
        share = LONG_SLACK if long else SLACK
        slack = parameters.delay_tuples // share if self.bounded else 0
        self.soft_delay = parameters.delay_tuples - slack
        self.clock = 0
        self.stream: list[Tuple] = []
        self.undecided: dict[int, Tuple] = {}
        self.decisions: list[Decision] = []
        self.statistics: Counter[str] = Counter()
        # Algorithm 1, lines 1-3. A freed slot is the next to be used.
        self.open: dict[int, Cluster] = {}
        self.free = list(reversed(range(parameters.beta)))
        self.reusable: list[Class | None] = [None] * parameters.reuse_max
        self.next_reusable = 0
        self.recent: deque[int] = deque(maxlen=parameters.mu)
        # Clusters in line to be published, and what arrivals pay for them.
        self.waiting: deque[list[Tuple]] = deque()
        self.ranges: list[list[Tuple]] = []
        self.paying: deque[tuple[int, int]] = deque()
        self.credit = 0

    # Events. Each returns what was decided, in order.

    def arrive(self, records: Iterable[Record], now_ns: int) -> list[Decision]:
        self.tell(now_ns)
        for record in records:
            self.accept(record)
        return self.outcomes()

    def tick(self, now_ns: int) -> list[Decision]:
        self.tell(now_ns)
        return self.outcomes()

    def end(self) -> list[Decision]:
        self.decide_now(list(self.undecided.values()))
        return self.outcomes()

    def outcomes(self) -> list[Decision]:
        decided, self.decisions = self.decisions, []
        return decided

    def tell(self, now_ns: int) -> None:
        """Time never runs backwards; what has waited delay_seconds is decided."""
        self.clock = max(self.clock, now_ns)
        if self.parameters.delay_seconds is not None:
            moment = self.clock - round(self.parameters.delay_seconds * 1e9)
            self.decide_now([t for t in self.undecided.values() if t.arrived <= moment])

    def decide_now(self, late: list[Tuple]) -> None:
        """Expire in arrival order; then what is in line is published out of turn."""
        for t in late:
            if t.cluster is not None:
                self.delay_constraint(t)
        for t in late:
            while t.in_line:
                self.work_once()

    def accept(self, record: Record) -> None:
        """Algorithm 1, the body of the loop."""
        position = len(self.stream)
        code = record.code
        t = Tuple(
            position=position,
            arrived=self.clock,
            record=record,
            person=position if self.everyone_once else record.person,
            box=Box(code[: self.numeric], code[: self.numeric], code[self.numeric :]),
        )
        self.stream.append(t)
        self.undecided[position] = t
        if record.general:
            self.statistics["suppressed_by_policy"] += 1
            self.decide(t, None)
        else:
            self.push(t)
        # Lines 11-13: t' with position t.p - delay. The bounded split starts a little earlier.
        expiring = position - self.soft_delay
        if expiring >= 0 and self.stream[expiring].cluster is not None:
            self.delay_constraint(self.stream[expiring])
        if self.pending() > 0:
            self.work_off()

    def push(self, t: Tuple) -> None:
        """Lines 6-10."""
        cluster = self.best_selection(t)
        if cluster is None:
            cluster = Cluster(slot=self.free.pop(), box=t.box)
            self.open[cluster.slot] = cluster
            self.statistics["clusters_opened"] += 1
        cluster.box = self.join(cluster.box, t.box)
        cluster.take(t)

    def decide(self, t: Tuple, published: Class | None) -> None:
        t.in_line = False
        del self.undecided[t.position]
        later = len(self.stream) - 1 - t.position
        self.statistics["delay_max"] = max(self.statistics["delay_max"], later)
        self.decisions.append(Decision(t.position, published))

    # Geometry.

    def loss(self, box: Box) -> int:
        """InfoLoss of the generalisation (section 2.2), summed."""
        intervals = sum(high - low for low, high in zip(box.low, box.high, strict=True))
        nodes = sum(tree.cost[node] for tree, node in zip(self.trees, box.node, strict=True))
        return intervals + nodes

    def join(self, box: Box, other: Box) -> Box:
        """The smallest box that contains both."""
        return Box(
            tuple(map(min, box.low, other.low)),
            tuple(map(max, box.high, other.high)),
            tuple(tree.ancestor(a, b) for tree, a, b in zip(self.trees, box.node, other.node)),  # noqa: B905
        )

    def enlargement(self, box: Box, other: Box) -> int:
        """Definition 3.4; between two tuples it is their distance (footnote 4)."""
        return self.loss(self.join(box, other)) - self.loss(box)

    def hull(self, tuples: Sequence[Tuple]) -> Box:
        box = tuples[0].box
        for t in tuples[1:]:
            box = self.join(box, t.box)
        return box

    # best_selection.

    def tau(self) -> Fraction:
        """The average loss of the mu most recent classes (section 3.2.3)."""
        return Fraction(sum(self.recent), len(self.recent)) if self.recent else Fraction(0)

    def gamma(self) -> list[Cluster]:
        return [self.open[slot] for slot in sorted(self.open)]

    def best_selection(self, t: Tuple) -> Cluster | None:
        if not self.open:
            return None
        # Lines 1-6.
        enlargement = {c.slot: self.enlargement(c.box, t.box) for c in self.gamma()}
        least = min(enlargement.values())
        set_min = [c for c in self.gamma() if enlargement[c.slot] == least]
        # Lines 7-10.
        tau = self.tau()
        set_ok = [c for c in set_min if self.loss(c.box) + least <= tau]
        # Lines 11-17. "Any" is the lowest slot.
        if set_ok:
            return min(set_ok, key=lambda c: c.size)
        if len(self.open) >= self.parameters.beta:
            return min(set_min, key=lambda c: c.size)
        return None

    # delay_constraint and merge_clusters.

    def ready(self, cluster: Cluster) -> bool:
        """Line 2, as section 4.2 has it: size >= k and diversity >= l."""
        k, l = self.parameters.k, self.parameters.l
        return cluster.size >= k and (l <= 1 or len(cluster.values) >= l)

    def delay_constraint(self, t: Tuple) -> None:
        # Line 1.
        cluster = t.cluster
        assert cluster is not None
        # Lines 2-3.
        if self.ready(cluster):
            self.output_cluster(cluster)
            return
        # Lines 5-9.
        containing = [c for c in self.reusable if c is not None and self.contains(c, t)]
        if containing:
            self.statistics["reused"] += 1
            self.leave_alone(t, containing[self.below(len(containing))])
            return
        # Lines 10-16.
        m = sum(1 for other in self.gamma() if cluster.size < other.size)
        if m > Fraction(len(self.open), 2):
            self.statistics["suppressed_outliers"] += 1
            self.leave_alone(t, None)
            return
        # Lines 17-19: the persons and the values of all clusters together, each counted once.
        persons = {person for other in self.gamma() for person in other.persons}
        values = {value for other in self.gamma() for value in other.values}
        l = self.parameters.l
        if len(persons) < self.parameters.k or (l > 1 and len(values) < l):
            self.statistics["suppressed_too_few"] += 1
            self.leave_alone(t, None)
            return
        # Lines 20-21.
        self.statistics["merges"] += 1
        self.merge_clusters(cluster)
        self.output_cluster(cluster)

    def contains(self, published: Class, t: Tuple) -> bool:
        """Whether the class as published contains the tuple's values as they came."""
        bounds = zip(published.low, t.record.raw, published.high, strict=True)
        inside = zip(self.trees, published.node, t.box.node, strict=True)
        return all(low <= value <= high for low, value, high in bounds) and all(
            leaf in tree.leaves[node] for tree, node, leaf in inside
        )

    def leave_alone(self, t: Tuple, published: Class | None) -> None:
        """The tuple leaves its cluster; an emptied cluster is deleted at once."""
        cluster = t.cluster
        assert cluster is not None
        cluster.lose(t)
        if not cluster.tuples:
            self.close(cluster)
        self.decide(t, published)

    def close(self, cluster: Cluster) -> None:
        del self.open[cluster.slot]
        self.free.append(cluster.slot)

    def merge_clusters(self, cluster: Cluster) -> None:
        """The cluster that enlarges it least is merged in, until it is ready."""
        while not self.ready(cluster):
            others = [other for other in self.gamma() if other is not cluster]
            nearest = min(others, key=lambda other: self.enlargement(cluster.box, other.box))
            cluster.box = self.join(cluster.box, nearest.box)
            for t in list(nearest.tuples):
                nearest.lose(t)
                cluster.take(t)
            self.close(nearest)

    # output_cluster: at once, or in line.

    def output_cluster(self, cluster: Cluster) -> None:
        self.statistics["clusters_released"] += 1
        members = list(cluster.tuples)
        for t in members:
            cluster.lose(t)
            t.in_line = True
        # Line 12.
        self.close(cluster)
        if not self.bounded:
            self.publish(members)
            return
        self.waiting.append(members)
        # Paid for in equal shares by the arrivals until the deadline, a third more for the cuts.
        arrivals = max(1, self.parameters.delay_tuples - self.soft_delay)
        rate = (len(members) * CREDIT_UNIT * 4 // 3) // arrivals + 1
        self.paying.append((len(self.stream) + arrivals, rate))

    def publish(self, members: list[Tuple]) -> None:
        k, l = self.parameters.k, self.parameters.l
        # Lines 1-4.
        if len({t.person for t in members}) < 2 * k:
            parts = [Part(self.hull(members), members)]
        else:
            self.statistics["splits"] += 1
            split = self.split if self.bounded or l <= 1 else self.split_l
            parts = split(members)
        classes = [self.form_class(part) for part in parts]
        # Line 6, in the members' order.
        class_of = {
            t.position: published
            for part, published in zip(parts, classes, strict=True)
            for t in part.tuples
        }
        for t in members:
            self.decide(t, class_of[t.position])
        # Lines 7-11.
        for part, published in zip(parts, classes, strict=True):
            loss = self.loss(part.box)
            self.recent.append(loss)
            if loss < self.tau():
                self.remember(published)

    def form_class(self, part: Part) -> Class:
        """Published bounds are the values as they came; the nodes are the box's."""
        columns = list(zip(*(t.record.raw for t in part.tuples), strict=True))
        class_id = self.statistics["classes"]
        self.statistics["classes"] += 1
        return Class(class_id, tuple(map(min, columns)), tuple(map(max, columns)), part.box.node)

    def remember(self, published: Class) -> None:
        """Omega is bounded: the oldest make room, 64 at a time."""
        if self.parameters.reuse_max == 0:
            return
        slot = self.next_reusable
        if slot % EVICTED_TOGETHER == 0:
            for old in range(slot, min(slot + EVICTED_TOGETHER, len(self.reusable))):
                self.reusable[old] = None
        self.reusable[slot] = published
        self.next_reusable = (slot + 1) % len(self.reusable)

    # The line: clusters that are due are cut and published bit by bit.

    def pending(self) -> int:
        return sum(map(len, self.waiting)) + sum(map(len, self.ranges))

    def work_off(self) -> None:
        """What one arrival pays towards the clusters in line; the delay ends all waiting."""
        while self.paying and self.paying[0][0] < len(self.stream):
            self.paying.popleft()
        self.credit += sum(rate for _, rate in self.paying)
        while self.pending() > 0 and self.credit > 0:
            self.work_once()
        deadline = len(self.stream) - 1 - self.parameters.delay_tuples
        while deadline >= 0 and self.stream[deadline].in_line:
            self.work_once()

    def work_once(self) -> None:
        """Cut or publish one range of the cluster that is first in line."""
        if not self.ranges:
            self.ranges.append(self.waiting.popleft())
        members = self.ranges.pop()
        persons = len({t.person for t in members})
        sides = None
        if persons > max(BLOCK, BLOCK_PARTS * self.parameters.k):
            sides = self.cut(members)
        if sides is not None:
            self.statistics["cuts"] += 1
            lower, upper = sides
            self.ranges += [upper, lower]
            self.credit -= len(members) * CREDIT_UNIT // CUT_SHARE
        else:
            self.publish(members)
            self.credit -= len(members) * CREDIT_UNIT
        if self.pending() == 0:
            self.paying.clear()
            self.credit = 0

    def cut(self, members: list[Tuple]) -> tuple[list[Tuple], list[Tuple]] | None:
        """Two sides with k persons and l values each, or None.

        A cut that was tried leaves the members sorted by it, lower side first.
        """
        for attribute, at in self.ranked_cuts(members)[:TRIES]:
            lower = [t for t in members if t.record.code[attribute] <= at]
            upper = [t for t in members if t.record.code[attribute] > at]
            members[:] = lower + upper
            if self.enough(lower) and self.enough(upper):
                return lower, upper
            self.statistics["refused_cuts"] += 1
        middle = len(members) // 2
        lower, upper = members[:middle], members[middle:]
        return (lower, upper) if self.enough(lower) and self.enough(upper) else None

    def enough(self, members: list[Tuple]) -> bool:
        persons, values = {t.person for t in members}, {t.value for t in members}
        l = self.parameters.l
        return len(persons) >= self.parameters.k and (l <= 1 or len(values) >= l)

    def ranked_cuts(self, members: list[Tuple]) -> list[tuple[int, int]]:
        """The best cut of each attribute (attribute, upper end of the lower side), best first."""
        count = min(SAMPLE, len(members))
        least = max(1, self.parameters.k * count // len(members))
        sample = [members[len(members) * i // count] for i in range(count)]
        scale = [1] * self.numeric + [tree.step for tree in self.trees]
        best: list[tuple[int, int, int]] = []
        for attribute, step in enumerate(scale):
            codes = sorted(t.record.code[attribute] for t in sample)
            cuts = [
                # The lower side is spared what is above it, the upper side what is below it.
                (step * (i * (codes[-1] - codes[i - 1]) + (count - i) * (codes[i] - codes[0])), i)
                for i in range(least, count - least + 1)
                if codes[i - 1] < codes[i]
            ]
            if cuts:
                gain, i = max(cuts, key=lambda cut: cut[0])
                best.append((gain, attribute, codes[i - 1]))
        best.sort(key=lambda cut: -cut[0])
        return [(attribute, at) for _, attribute, at in best]

    # split and split-l.

    def split(self, members: list[Tuple]) -> list[Part]:
        """The KNN split. With l > 1 a part also takes the nearest tuples of further values."""
        k, l = self.parameters.k, self.parameters.l
        # Lines 1-2.
        parts: list[Part] = []
        by_person: dict[int, list[Tuple]] = {}
        for t in members:
            by_person.setdefault(t.person, []).append(t)
        buckets = list(by_person.values())
        # Line 3.
        while len(buckets) >= k:
            # Lines 4-5.
            seed = self.below(len(buckets))
            start = buckets[seed][0].box
            # Lines 8-12.
            distance = [self.enlargement(start, bucket[0].box) for bucket in buckets]
            ranked = sorted(range(len(buckets)), key=distance.__getitem__)
            ranked.remove(seed)
            chosen = [seed, *ranked[: k - 1]]
            if l > 1:
                values = {buckets[b][0].value for b in chosen}
                for b in ranked[k - 1 :]:
                    if len(values) < l and buckets[b][0].value not in values:
                        values.add(buckets[b][0].value)
                        chosen.append(b)
                if len(values) < l:
                    break
            # Lines 13-20. The last bucket takes the place of an emptied one.
            taken = []
            for b in sorted(chosen, reverse=True):
                taken.append(buckets[b].pop(0))
                if not buckets[b]:
                    last = buckets.pop()
                    if b < len(buckets):
                        buckets[b] = last
            parts.append(Part(self.hull(taken), taken))
        if not parts:
            return [Part(self.hull(members), members)]
        # Lines 21-24: each person as a whole.
        for bucket in buckets:
            self.add_to_nearest(parts, bucket)
        return parts

    def add_to_nearest(self, parts: list[Part], tuples: list[Tuple]) -> None:
        """Add the tuples to the part that is nearest to the first of them."""
        nearest = min(parts, key=lambda part: self.enlargement(part.box, tuples[0].box))
        nearest.tuples += tuples
        nearest.box = self.join(nearest.box, self.hull(tuples))

    def split_l(self, members: list[Tuple]) -> list[Part]:
        k, l = self.parameters.k, self.parameters.l
        # Line 1: one tuple per person, in buckets by sensitive value.
        representatives: dict[int, Tuple] = {}
        for t in members:
            representatives.setdefault(t.person, t)
        buckets: dict[int, list[Tuple]] = {}
        for t in representatives.values():
            buckets.setdefault(t.value, []).append(t)
        # Line 4.
        parts: list[Part] = []
        # Line 5.
        while len(buckets) >= l and (total := sum(map(len, buckets.values()))) >= k:
            # Lines 6-9.
            bucket = list(buckets.values())[self.below(len(buckets))]
            seed = bucket.pop(self.below(len(bucket)))
            part = Part(seed.box, [seed])
            # Lines 10-18: the share is rounded up.
            for value, bucket in list(buckets.items()):
                share = -(-k * len(bucket) // total)
                ranked = sorted(bucket, key=lambda t: self.enlargement(part.box, t.box))
                taken = ranked[:share]
                if taken:
                    part.tuples += taken
                    part.box = self.join(part.box, self.hull(taken))
                bucket[:] = [t for t in bucket if t not in taken]
                if not bucket:
                    del buckets[value]
            # Line 19.
            parts.append(part)
        # Lines 2-3.
        if not parts:
            return [Part(self.hull(members), members)]
        # Lines 20-24.
        for bucket in buckets.values():
            for t in bucket:
                self.add_to_nearest(parts, [t])
        # Lines 25-30: every further tuple of a person goes where the representative is.
        part_of = {t.person: part for part in parts for t in part.tuples}
        for t in members:
            if t is not representatives[t.person]:
                part = part_of[t.person]
                part.tuples.append(t)
                part.box = self.join(part.box, t.box)
        return parts
