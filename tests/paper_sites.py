"""Sites of the `paper` exchange for tests: one that takes plain tuples, and several on a relay."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.boxes import Box, BoxCodec
from core.config import Parameters
from core.events import SUPPRESSED, Publish, Records, RecordsArrived, StreamEnded
from core.hierarchy import flat
from core.kernels.layout import GRID
from core.schema import Attribute, Kind, Role, Schema
from relay_server.pb import exchange_pb2 as pb
from site_node.exchange_events import Accept, Received, Send, SessionEffect, SessionEvent
from site_node.paper import PaperSession

KEY = bytes(range(32))
DELAY = 10
# A year is a whole number of grid steps.
YEARS = 128
ILLS = flat(["ache", "burn", "cold", "flu"])
AGE = Attribute(
    name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, domain=(0.0, float(YEARS))
)
ILL = Attribute(name="ill", role=Role.SENSITIVE, kind=Kind.CATEGORICAL, hierarchy=ILLS)
BY_AGE = Schema(attributes=(AGE, ILL), person="pid")


@dataclass(frozen=True)
class T:
    """A tuple to arrive. Without a person it is someone who was never seen."""

    age: float
    ill: str = "ache"
    person: int | None = None
    general: bool = False


@dataclass(frozen=True)
class Out:
    """A tuple's outcome; of a suppressed one `class_id` is SUPPRESSED and there are no bounds."""

    age: float
    position: int
    class_id: int
    low: float | None = None
    high: float | None = None


class Site:
    """A session that takes plain tuples, answers with plain outcomes and keeps what it said.

    Unless a test says otherwise k = 2 and l = 1, and a tuple expires when DELAY more have come.
    Tau is 0 until the first cluster is put out, so that at first every new age opens a cluster, up
    to beta of them.
    """

    def __init__(
        self,
        *,
        index: int = 0,
        sites: int = 1,
        seed: int = 1,
        schema: Schema = BY_AGE,
        **rules: Any,
    ) -> None:
        self.schema = schema
        self.parameters = Parameters(**{"k": 2, "beta": 10, "delay_tuples": DELAY, **rules})
        self.session = PaperSession(schema, self.parameters, site="s", key=KEY, seed=seed)
        self.said: list[pb.SiteMessage] = []
        self.published: list[tuple[Publish, pb.Publication]] = []
        self.stream: list[T] = []
        if sites > 1:
            self.hear(welcome=pb.Welcome(site_index=index, sites=sites))

    def arrive(self, *tuples: T | float) -> list[Out]:
        rows = [t if isinstance(t, T) else T(t) for t in tuples]
        first = len(self.stream)
        self.stream += rows
        outs, accepted = self._step(RecordsArrived(_encoded(rows, first)))
        assert accepted == [len(rows)]
        return outs

    def wait(self, arrivals: int) -> list[Out]:
        """Let time pass: so many records come that are suppressed by policy at once."""
        return self.arrive(*[T(0, general=True)] * arrivals)

    def run(self, *tuples: T | float) -> list[Out]:
        """Let the tuples come, and then pass by as much as it takes to decide them all."""
        return [*self.arrive(*tuples), *self.wait(DELAY)]

    def end(self) -> list[Out]:
        return self._step(StreamEnded())[0]

    def hear(self, **body: Any) -> list[Out]:
        """The relay says something: share=..., release=..., remove=... and so on."""
        return self._step(Received(pb.RelayMessage(**body)))[0]

    def hear_share(self, *clusters: pb.Cluster) -> list[Out]:
        return self.hear(share=pb.Share(clusters=clusters))

    def hear_release(self, *clusters: pb.Cluster) -> list[Out]:
        return self.hear(release=pb.Release(clusters=clusters))

    def hear_remove(self, *ids: int) -> list[Out]:
        return self.hear(remove=pb.Remove(ids=ids))

    def __getitem__(self, statistic: str) -> int:
        return self.session.statistics()[statistic]

    @property
    def gamma(self) -> int:
        return self.session.open_clusters

    @property
    def shared(self) -> list[pb.Cluster]:
        """Clusters in all messages of type 1 so far."""
        return [cluster for message in self.said for cluster in message.share.clusters]

    @property
    def released(self) -> list[pb.Cluster]:
        return [cluster for message in self.said for cluster in message.release.clusters]

    @property
    def removed(self) -> list[int]:
        return [number for message in self.said for number in message.remove.ids]

    def _step(self, event: SessionEvent) -> tuple[list[Out], list[int]]:
        effects = self.session.step(event)
        outs: list[Out] = []
        accepted: list[int] = []
        for place, effect in enumerate(effects):
            match effect:
                case Accept():
                    assert place == 0
                    accepted.append(effect.count)
                case Publish():
                    outs += [out for out in self._outcomes(effect) if not self._is_general(out)]
                    after = effects[place + 1]
                    assert isinstance(after, Send)
                    self.published.append((effect, after.message.publication))
                case Send() if effect.message.WhichOneof("body") != "publication":
                    self.said.append(effect.message)
        return outs, accepted

    def _is_general(self, out: Out) -> bool:
        return self.stream[out.position].general

    def _outcomes(self, effect: Publish) -> Iterable[Out]:
        table = effect.classes
        for position, row in zip(effect.position.tolist(), effect.row.tolist(), strict=True):
            age = self.stream[position].age
            if row == SUPPRESSED:
                yield Out(age, position, SUPPRESSED)
            else:
                low, high = float(table.low[row, 0]), float(table.high[row, 0])
                assert low <= age <= high
                yield Out(age, position, int(table.class_id[row]), low, high)


def _encoded(rows: Sequence[T], first: int) -> Records:
    raw = np.array([[row.age] for row in rows], np.float64).reshape(-1, 1)
    strangers = range(1_000 + first, 1_000 + first + len(rows))
    persons = [s if t.person is None else t.person for t, s in zip(rows, strangers, strict=True)]
    return Records(
        code=np.rint(raw / YEARS * GRID).astype(np.int32),
        raw=raw,
        person=np.array(persons, np.int64),
        value=np.array([ILLS.names.index(row.ill) for row in rows], np.int64),
        general=np.array([row.general for row in rows], np.bool_),
    )


def cluster(
    number: int, size: int, low: float, high: float, ills: Sequence[str] = ("ache",)
) -> pb.Cluster:
    """What another site says of a cluster over these ages."""
    ends = [np.array([round(age / YEARS * GRID)], np.int32) for age in (low, high)]
    bits = sum(1 << ILLS.names.index(ill) for ill in set(ills))
    values = bytes([bits]).rstrip(b"\0")
    return pb.Cluster(id=number, size=size, box=BoxCodec(BY_AGE).encode(Box(*ends)), values=values)


def ages_of(message: pb.Cluster) -> tuple[float, float]:
    """Both ends of a cluster's box as it was sent."""
    box = BoxCodec(BY_AGE).decode(message.box)
    return float(box.low[0]) / GRID * YEARS, float(box.high[0]) / GRID * YEARS


def groups(outs: Iterable[Out]) -> list[list[float]]:
    """Ages by class, in the order of their smallest age; suppressed tuples are left out."""
    classes: dict[int, list[float]] = {}
    for out in outs:
        if out.class_id != SUPPRESSED:
            classes.setdefault(out.class_id, []).append(out.age)
    return sorted(sorted(ages) for ages in classes.values())


def suppressed(outs: Iterable[Out]) -> list[float]:
    return [out.age for out in outs if out.class_id == SUPPRESSED]


class Relayed:
    """Several sessions and a relay that passes every message on to all others, in order."""

    def __init__(self, schema: Schema, parameters: Parameters, sites: int, *, seed: int) -> None:
        self.sites = [
            PaperSession(schema, parameters, site=f"site-{x}", key=KEY, seed=seed * 1_000 + x)
            for x in range(sites)
        ]
        self.published: list[tuple[int, Publish]] = []
        self.transcript: list[tuple[int, bytes]] = []  # every message, publications included
        for index in range(sites):
            welcome = pb.Welcome(site_index=index, sites=sites)
            self.step(index, Received(pb.RelayMessage(welcome=welcome)))

    def step(self, site: int, event: SessionEvent) -> None:
        """One event at one site, and all that follows from it everywhere."""
        pending: deque[tuple[int, SessionEffect]] = deque()
        pending.extend((site, effect) for effect in self.sites[site].step(event))
        while pending:
            sender, effect = pending.popleft()
            if isinstance(effect, Publish):
                self.published.append((sender, effect))
            elif isinstance(effect, Send):
                self.transcript.append((sender, effect.message.SerializeToString()))
                heard = _passed_on(effect.message)
                for other in range(len(self.sites)) if heard is not None else ():
                    if other != sender and heard is not None:
                        effects = self.sites[other].step(Received(heard))
                        pending.extend((other, each) for each in effects)

    def deal(self, records: Records) -> None:
        """The records in turn, one for each site, and the end of the stream."""
        for place in range(len(records)):
            one = Records(
                code=records.code[place : place + 1],
                raw=records.raw[place : place + 1],
                person=records.person[place : place + 1],
                value=records.value[place : place + 1],
                general=records.general[place : place + 1],
            )
            self.step(place % len(self.sites), RecordsArrived(one))
        for index in range(len(self.sites)):
            self.step(index, StreamEnded())

    def merged(self) -> tuple[dict[bytes, list[int]], list[int]]:
        """Records (by their place in the whole stream) by published bounds, and suppressed ones."""
        classes: dict[bytes, list[int]] = {}
        alone: list[int] = []
        for site, effect in self.published:
            table = effect.classes
            for position, row in zip(effect.position.tolist(), effect.row.tolist(), strict=True):
                place = position * len(self.sites) + site
                if row == SUPPRESSED:
                    alone.append(place)
                    continue
                ends = table.low[row].tobytes() + table.high[row].tobytes()
                classes.setdefault(ends + table.node[row].tobytes(), []).append(place)
        return classes, alone


def _passed_on(message: pb.SiteMessage) -> pb.RelayMessage | None:
    match message.WhichOneof("body"):
        case "share":
            return pb.RelayMessage(share=message.share)
        case "release":
            return pb.RelayMessage(release=message.release)
        case "remove":
            return pb.RelayMessage(remove=message.remove)
    return None
