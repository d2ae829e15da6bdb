"""The `paper` exchange: dCASTLE as published, at one site.

M. Mohamed, S. Ghanem, M. Nagi: "Privacy-Preserving for Distributed Data Streams: Towards
l-Diversity", International Arab Journal of Information Technology 17(1), 2020. Sections that are
cited here and in the paper_*.py files are that paper's.

This is a reproduction, for comparison. It does NOT keep k in the merged output: each site publishes
its own enlarged box under one cluster id, and merges count tuples of other sites that are never
published with them. Use `strict` where k must hold.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

from core.config import Parameters
from core.events import Records, RecordsArrived, StreamEnded, Ticked
from core.exchange import SITES_MAX
from core.schema import Schema
from core.tokens import TokenKey
from relay_server.pb import exchange_pb2 as pb
from site_node.exchange_events import Received, SessionEffect, SessionEvent
from site_node.paper_boxes import BoxSpace
from site_node.paper_clusters import Cluster
from site_node.paper_messages import Summaries, Summary, hello
from site_node.paper_outbox import Outbox
from site_node.paper_site import PaperSite
from site_node.paper_values import SensitiveValues
from site_node.paper_window import Window
from site_node.publication import Publications
from site_node.telling import Teller

# Records that are taken in at once; what was decided is published after each such piece.
CHUNK_TUPLES: Final = 1_024

STATISTICS: Final = (
    "delay_max",  # most records accepted after one before its outcome was decided
    "case_1",  # by the cases of dDelayConstraint: tuples moved to a better cluster,
    "case_2",  # put out with their host,
    "case_3",  # put out with a reusable class,
    "case_4",  # suppressed as outliers,
    "case_5",  # put out after a merge
    "too_few",  # case 5, too, but suppressed: all clusters together were not enough
    "suppressed",  # records, for whatever reason
    "clusters_opened",
    "clusters_released",  # put out, here or as another site said
    "splits",
    "shared",  # clusters named in own messages of type 1, 2 and 3
    "released",
    "removed",
    "refused",  # clusters in messages, or messages, that were ignored: unknown or malformed
)


class PaperSession:
    """dCASTLE at one site: events in, effects out, and no other way to change it.

    The same events after the same seed give the same effects. Before the relay's welcome the site
    takes itself to be the only one (n = 1) and shares nothing.
    """

    def __init__(
        self, schema: Schema, parameters: Parameters, *, site: str, key: bytes, seed: int
    ) -> None:
        token_key = TokenKey(key)
        teller = Teller(schema, k=parameters.k, l=parameters.l, key=token_key)
        values = SensitiveValues(schema, l=parameters.l, key=token_key)
        space = BoxSpace(schema)
        self._hello = hello(schema, parameters, teller, site)
        self._delay_tuples = parameters.delay_tuples
        self._delay_seconds = parameters.delay_seconds
        self._statistics: Counter[str] = Counter()
        self._summaries = Summaries(schema, space, values)
        self._window = Window(
            space, delay_tuples=parameters.delay_tuples, everyone_once=schema.person is None
        )
        self._outbox = Outbox(space, self._window, Publications(teller), self._statistics)
        self._site = PaperSite(
            parameters,
            space=space,
            values=values,
            summaries=self._summaries,
            window=self._window,
            outbox=self._outbox,
            statistics=self._statistics,
            seed=seed,
        )
        self._clock = 0
        self._arrivals: deque[tuple[int, int]] = deque()  # (time, position of the next record)
        self._ended = False

    def hello(self) -> pb.SiteMessage:
        """What the site says first."""
        return self._hello

    def step(self, event: SessionEvent) -> list[SessionEffect]:
        """Take in one event; returns what to do, in order."""
        match event:
            case RecordsArrived():
                self._outbox.accept(len(event.records))
                self._tell(event.now_ns)
                for start in range(0, len(event.records), CHUNK_TUPLES):
                    self._take_in(_slice(event.records, start, start + CHUNK_TUPLES))
                if self._delay_seconds is not None:
                    self._arrivals.append((self._clock, self._window.position))
            case Ticked():
                self._tell(event.now_ns)
            case StreamEnded():
                self._ended = True
                self._expire_before(self._window.position)
            case Received():
                self._receive(event.message)
        self._outbox.publish()
        return self._outbox.taken()

    @property
    def open_clusters(self) -> int:
        """|Gamma|, shared clusters included."""
        return len(self._site.gamma)

    @property
    def open_clusters_max(self) -> int:
        """The paper's beta+: the largest |Gamma| that was seen."""
        return self._site.gamma.largest

    @property
    def finished(self) -> bool:
        """Whether the stream has ended and every record has its outcome."""
        return self._ended and not self._site.undecided

    def statistics(self) -> dict[str, int]:
        """What happened so far; see STATISTICS."""
        return {name: self._statistics[name] for name in STATISTICS}

    # --- arrivals (section 4.3) and time

    def _take_in(self, records: Records) -> None:
        site, outbox, delay = self._site, self._outbox, self._delay_tuples
        position = self._window.position
        persons, values = self._window.append(records)
        for person, value, general in zip(persons, values, records.general.tolist(), strict=True):
            outbox.latest = position
            site.send_recent()
            if general:
                outbox.decide(position, None)
            else:
                site.insert(position, person, value)
            # "Verifies whether the arrival of t makes a tuple t' with position (t.p - delta) that
            # has not been output yet to expire".
            if site.waits(position - delay):
                site.expire(position - delay)
            position += 1
        outbox.publish()

    def _tell(self, now_ns: int) -> None:
        """What has waited for delay_seconds expires; the paper has no such limit."""
        self._clock = max(self._clock, now_ns)
        if self._delay_seconds is None:
            return
        moment = self._clock - round(self._delay_seconds * 1e9)
        while self._arrivals and self._arrivals[0][0] <= moment:
            self._expire_before(self._arrivals.popleft()[1])

    def _expire_before(self, position: int) -> None:
        """Expire tuples in the order of arrival; one may take others with it."""
        for each in self._site.waiting(position):
            if self._site.waits(each):
                self._site.expire(each)

    # --- messages (section 4.4). What makes no sense is ignored and counted.

    def _receive(self, message: pb.RelayMessage) -> None:
        match message.WhichOneof("body"):
            case "welcome":
                self._join(message.welcome)
            case "members" if message.members.sites > 0:
                self._site.set_sites(message.members.sites)
            case "share":
                for cluster in message.share.clusters:
                    self._add_shared(cluster)
            case "release":
                for cluster in message.release.clusters:
                    self._release_shared(cluster)
            case "remove":
                for cluster_id in message.remove.ids:
                    self._remove_shared(cluster_id)
            case _:
                self._refuse()

    def _join(self, welcome: pb.Welcome) -> None:
        if welcome.site_index < SITES_MAX and welcome.sites > 0:
            self._site.join(welcome.site_index, welcome.sites)
        else:
            self._refuse()

    def _add_shared(self, message: pb.Cluster) -> None:
        summary = self._summary(message)
        if (
            summary is None
            or self._site.is_own_id(summary.id)
            or self._site.gamma.find(summary.id) is not None
        ):
            self._refuse()
        else:
            self._site.add_shared(summary)

    def _release_shared(self, message: pb.Cluster) -> None:
        summary = self._summary(message)
        cluster = self._known(message.id)
        if summary is None or cluster is None:
            self._refuse()
        else:
            self._site.release_shared(cluster, summary)

    def _remove_shared(self, cluster_id: int) -> None:
        cluster = self._known(cluster_id)
        if cluster is None:
            self._refuse()
        else:
            self._site.remove_shared(cluster)

    def _known(self, cluster_id: int) -> Cluster | None:
        """The open cluster, if others can know it."""
        cluster = self._site.gamma.find(cluster_id)
        return cluster if cluster is not None and cluster.known else None

    def _summary(self, message: pb.Cluster) -> Summary | None:
        try:
            return self._summaries.decode(message)
        except ValueError:
            return None

    def _refuse(self) -> None:
        self._statistics["refused"] += 1


def _slice(records: Records, start: int, stop: int) -> Records:
    return Records(
        code=records.code[start:stop],
        raw=records.raw[start:stop],
        person=records.person[start:stop],
        value=records.value[start:stop],
        general=records.general[start:stop],
    )
