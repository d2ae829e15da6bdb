"""Sessions and a hub for tests: small schemas, random streams, and a network that a test can see.

Every message is really encoded and decoded. Between two ends messages keep their order; which end
is next is drawn, so that senders overtake each other.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from core.config import InputOptions, Parameters, Project
from core.events import Publish, Records, RecordsArrived, StreamEnded, Ticked
from core.hierarchy import Hierarchy, flat, from_nested
from core.kernels.layout import GRID
from core.machine import records_slice
from core.schema import Attribute, Kind, Role, Schema
from relay_server.hub import Agreement, Effect, Hub, Show
from relay_server.pb import exchange_pb2 as pb
from relay_server.publisher import VisibleAgain
from scripts.simulation.stream import Dealt
from site_node.exchange_events import Accept, Received, Send, SessionEffect, SessionEvent
from site_node.session import Session

KEY = bytes(range(32))
SECOND = 1_000_000_000
PATIENCE_NS = 10 * SECOND
HEIGHT, WEIGHT = (0.0, 500.0), (-40.0, 160.0)
LEAVES = 7


def _tree() -> Hierarchy:
    tree, _ = from_nested(
        {"Any": {"A": {"AA": ["a", "b", "c"], "AB": ["d"]}, "B": ["e", "f"], "g": []}},
        file="",
        line=None,
        attribute="",
    )
    assert tree is not None
    return tree


def schema(
    *, person: str | None = "pid", disjoint: bool = False, numeric_value: bool = False
) -> Schema:
    """Two numeric quasi-identifiers, a categorical one, a sensitive attribute of six values."""
    kind, role = Kind.NUMERIC, Role.QUASI_IDENTIFIER
    ill = Attribute(
        name="ill", role=Role.SENSITIVE, kind=Kind.CATEGORICAL, hierarchy=flat("uvwxyz")
    )
    dose = Attribute(name="dose", role=Role.SENSITIVE, kind=Kind.NUMERIC, domain=(0.0, 1e6))
    return Schema(
        attributes=(
            Attribute(name="height", role=role, kind=kind, domain=HEIGHT),
            Attribute(name="weight", role=role, kind=kind, domain=WEIGHT),
            Attribute(name="leaf", role=role, kind=Kind.CATEGORICAL, hierarchy=_tree()),
            dose if numeric_value else ill,
        ),
        person=person,
        persons_disjoint=disjoint,
    )


def parameters(**options: Any) -> Parameters:
    return Parameters(**{"k": 6, "l": 2, "delay_tuples": 60, "beta": 8, "mu": 10, **options})


def project(of: Schema, rules: Parameters) -> Project:
    return Project(schema=of, parameters=rules, input=InputOptions())


def records(
    count: int, seed: int, *, persons: int = 1_000_000, values: int = 4, numeric_value: bool = False
) -> Records:
    """Records of `schema` in three crowds, and some anywhere; a few are general."""
    draw = np.random.default_rng(seed)
    crowd = draw.integers(0, 4, count)
    height = np.where(crowd == 3, draw.uniform(0, 500, count), draw.normal(100 + 90 * crowd, 25))
    weight = np.where(crowd == 3, draw.uniform(-40, 160, count), draw.normal(20 + 30 * crowd, 9))
    raw = np.stack([np.clip(height, *HEIGHT).round(1), np.clip(weight, *WEIGHT).round(3)], axis=1)
    lows, highs = np.array([HEIGHT, WEIGHT]).T
    leaf = np.where(crowd == 3, draw.integers(0, LEAVES, count), crowd * 2)
    value = draw.integers(0, values, count)
    if numeric_value:
        # As core.encode codes a number: by its bits.
        value = (value * 1_001.25 + 17.5).view(np.int64)
    return Records(
        code=np.hstack([np.rint((raw - lows) * (GRID / (highs - lows))), leaf[:, None]]).astype(
            np.int32
        ),
        raw=raw,
        person=draw.integers(0, persons, count) * 0x1_0001_0001 + 0x5EED_0000_0000_0000,
        value=value.astype(np.int64),
        general=draw.random(count) < 0.01,
    )


def dealt(stream: Records, site: Sequence[int] | np.ndarray[Any, Any], sites: int) -> Dealt:
    return Dealt(
        records=stream,
        site=np.asarray(site, np.int32),
        row=np.arange(len(stream)),
        names=tuple(f"site-{number}" for number in range(1, sites + 1)),
        dataset_bytes=40 * len(stream),
    )


class Pumped:
    """One site: its session, its stream, and what it has accepted of that."""

    def __init__(self, session: Session, stream: Records) -> None:
        self.session = session
        self.stream = stream
        self.accepted = 0
        self.up: deque[bytes] = deque()
        self.down: deque[bytes] = deque()
        self.published: list[Publish] = []
        self.said: list[pb.SiteMessage] = []
        self.index = -1
        self.here = False


class Pump:
    """A relay and its sites. Nothing is delivered before a test says so."""

    def __init__(
        self, of: Schema, rules: Parameters, *, seed: int = 1, l: int | None = None
    ) -> None:
        self.schema, self.rules = of, rules
        self.hub = Hub(
            Agreement(exchange="strict", k=rules.k, l=l or rules.l), patience_ns=PATIENCE_NS
        )
        self.sites: dict[str, Pumped] = {}
        self.names: dict[int, str] = {}
        self.shown: list[tuple[str, int, int | None, bytes]] = []  # site, position, class, bounds
        self.bounds: dict[int, bytes] = {}
        self.now_ns = 0
        self.random = random.Random(seed)

    def add(self, name: str, stream: Records, *, seed: int = 7, **options: Any) -> Pumped:
        """A site says hello."""
        session = Session(
            self.schema,
            self.rules,
            site=name,
            key=KEY,
            seed=seed,
            patience_ns=PATIENCE_NS,
            **options,
        )
        site = self.sites[name] = Pumped(session, stream)
        self._say(site, session.hello())
        return site

    # --- what a test lets happen

    def offer(self, name: str, count: int) -> None:
        """Let the next records of the site's stream arrive, all of them."""
        site = self.sites[name]
        until = min(site.accepted + count, len(site.stream))
        while site.accepted < until:
            rest = records_slice(site.stream, site.accepted, until)
            self.step(name, RecordsArrived(rest, self.now_ns))

    def end(self, name: str) -> None:
        self.step(name, StreamEnded())

    def leave(self, name: str) -> None:
        self._say(self.sites[name], pb.SiteMessage(goodbye=pb.Goodbye()))

    def tick(self, nanoseconds: int) -> None:
        """Time passes for everybody."""
        self.now_ns += nanoseconds
        self._relay(self.hub.tick(self.now_ns))
        for name, site in self.sites.items():
            if site.here:
                self.step(name, Ticked(self.now_ns))

    def step(self, name: str, event: SessionEvent) -> list[SessionEffect]:
        site = self.sites[name]
        effects = site.session.step(event)
        for effect in effects:
            match effect:
                case Accept(count):
                    site.accepted += count
                case Send(message):
                    self._say(site, message)
                case Publish():
                    site.published.append(effect)
        return effects

    def deliver(self, most: int | None = None) -> bool:
        """Deliver messages of ends that are drawn; whether there were any."""
        delivered = 0
        while most is None or delivered < most:
            ends = [(name, way) for name, site in self.sites.items() for way in self._ways(site)]
            if not ends:
                break
            name, upward = self.random.choice(ends)
            delivered += 1
            site = self.sites[name]
            if upward:
                data = site.up.popleft()
                sender = self.hub.index_of(name)
                effects = self.hub.receive(sender, data, self.now_ns)
                if sender is None and (index := self.hub.index_of(name)) is not None:
                    self.names[index] = name
                    site.index, site.here = index, True
                site.here = self.hub.index_of(name) is not None
                self._relay(effects, name)
            else:
                message = pb.RelayMessage.FromString(site.down.popleft())
                self.step(name, Received(message))
        return delivered > 0

    def finish(self) -> None:
        """Deliver and let time pass until everybody is done."""
        rounds = 0
        while not all(site.session.finished for site in self.sites.values() if site.here):
            self.deliver()
            self.tick(SECOND)
            rounds += 1
            assert rounds < 10_000, "records wait, and nothing happens"
        self.deliver()
        self._relay(self.hub.finish())

    # --- what came of it

    def outcomes(self, name: str) -> dict[int, tuple[int, bytes] | None]:
        """What became of each record of a site in the merged output; fails where two things did."""
        found: dict[int, tuple[int, bytes] | None] = {}
        for site, position, class_id, bounds in self.shown:
            if site == name:
                assert position not in found, f"record {position} of {name} came out twice"
                found[position] = None if class_id is None else (class_id, bounds)
        return found

    def classes(self) -> dict[bytes, list[tuple[str, int]]]:
        """Records that look alike in the merged output."""
        groups: dict[bytes, list[tuple[str, int]]] = {}
        for site, position, class_id, bounds in self.shown:
            if class_id is not None:
                groups.setdefault(bounds, []).append((site, position))
        return groups

    def check(self, *, complete: bool = True) -> None:
        """k and l hold, bounds enclose, no record is lost, and no deadline was missed."""
        for members in self.classes().values():
            persons = {self._person(site, position) for site, position in members}
            values = {int(self.sites[s].stream.value[p]) for s, p in members}
            assert len(persons) >= self.rules.k
            assert self.rules.l == 1 or len(values) >= self.rules.l
        for site, position, class_id, bounds in self.shown:
            if class_id is not None:
                assert encloses(bounds, self.sites[site].stream, position, self.schema)
        for name, each in self.sites.items():
            assert each.session.statistics()["delay_max"] <= self.rules.delay_tuples
            if complete:
                assert sorted(self.outcomes(name)) == list(range(each.accepted))

    def _person(self, site: str, position: int) -> object:
        if self.schema.person is None:
            return site, position
        return int(self.sites[site].stream.person[position])

    @staticmethod
    def _ways(site: Pumped) -> list[bool]:
        return [upward for upward in (True, False) if (site.up if upward else site.down)]

    def _say(self, site: Pumped, message: pb.SiteMessage) -> None:
        site.said.append(message)
        site.up.append(message.SerializeToString())

    def _relay(self, effects: list[Effect], sender: str = "") -> None:
        for effect in effects:
            if isinstance(effect, Show):
                self._show(effect)
            else:
                name = sender if effect.site < 0 else self.names[effect.site]
                self.sites[name].down.append(effect.message.SerializeToString())

    def _show(self, effect: Show) -> None:
        shown = effect.visible
        name = self.names[shown.site]
        positions = np.frombuffer(shown.payload, "<i8").tolist()
        if isinstance(shown, VisibleAgain):
            for position, number in zip(positions, shown.class_ids, strict=True):
                self.shown.append((name, position, number, self.bounds[number]))
            return
        if shown.class_id is not None:
            self.bounds.setdefault(shown.class_id, shown.bounds)
        for position in positions:
            self.shown.append((name, position, shown.class_id, shown.bounds))


def encloses(bounds: bytes, stream: Records, position: int, of: Schema) -> bool:
    """Whether a published class holds the record's values."""
    numeric = len(of.numeric)
    ends = np.frombuffer(bounds, "<f8", 2 * numeric)
    nodes = np.frombuffer(bounds, "<i4", offset=16 * numeric).tolist()
    raw = stream.raw[position]
    leaves = stream.code[position, numeric:].tolist()
    trees = [each.hierarchy for each in of.categorical]
    return bool((ends[:numeric] <= raw).all() and (raw <= ends[numeric:]).all()) and all(
        tree is not None and tree.first_leaf[node] <= leaf <= tree.last_leaf[node]
        for tree, node, leaf in zip(trees, nodes, leaves, strict=True)
    )
