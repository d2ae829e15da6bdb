"""Sites and a relay in one process: real sessions, a real hub, a virtual clock and network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from core.config import Parameters
from core.errors import DcastleError
from core.events import Records, RecordsArrived, StreamEnded, Ticked
from core.exchange import SITES_MAX
from core.machine import records_slice
from core.schema import Schema
from relay_server.hub import Agreement, Effect, Hub, Show
from relay_server.pb import exchange_pb2 as pb
from relay_server.publisher import VisibleAgain
from scripts.simulation.network import Network
from scripts.simulation.outcome import Collector, Outcome, added_up
from scripts.simulation.stream import Dealt, records_of
from scripts.simulation.wire import Wire
from site_node.exchange_events import Accept, Received, Send, SessionEffect, SessionEvent
from site_node.paper import PaperSession
from site_node.session import Session

# A record of the whole stream takes so long in virtual time.
RECORD_NS: Final = 1_000_000
# Virtual time passes for sessions and the relay every so many records.
TICK_RECORDS: Final = 1_024
# Records of a site that are offered at once: a part of its delay, so that sites keep step.
SLICES_PER_DELAY: Final = 16
# Rounds without any progress after which a run is stuck.
STUCK_ROUNDS: Final = 1_000


class AnySession(Protocol):
    """What a session of either protocol can do."""

    @property
    def open_clusters_max(self) -> int: ...  # noqa: D102
    def hello(self) -> pb.SiteMessage: ...  # noqa: D102
    def step(self, event: SessionEvent) -> list[SessionEffect]: ...  # noqa: D102
    def statistics(self) -> dict[str, int]: ...  # noqa: D102
    @property
    def finished(self) -> bool: ...  # noqa: D102


class _Site:
    """A site's session and its place in its stream."""

    def __init__(self, session: AnySession, index: NDArray[np.int64], records: Records) -> None:
        self.session = session
        self.index = index  # of its records in the whole stream
        self.records = records
        self.accepted = 0
        self.ended = False
        self.dead = False


def run_exchange(
    schema: Schema,
    parameters: Parameters,
    dealt: Dealt,
    *,
    mode: str,
    network: Network,
    seed: int,
    progress: Callable[[int], None],
) -> Outcome:
    """Run `paper` or `strict` on the stream."""
    exchange = _Exchange(schema, parameters, dealt, mode=mode, network=network, seed=seed)
    exchange.run(progress)
    return exchange.outcome()


class _Exchange:
    def __init__(
        self,
        schema: Schema,
        parameters: Parameters,
        dealt: Dealt,
        *,
        mode: str,
        network: Network,
        seed: int,
    ) -> None:
        self._dealt = dealt
        self._network = network
        self._parameters = parameters
        patience_ns = (64 * network.latency_tuples + 4 * TICK_RECORDS) * RECORD_NS
        self._sites = [
            _Site(
                _session(schema, parameters, mode, name, seed, place, patience_ns),
                index := np.flatnonzero(dealt.site == place),
                records_of(dealt, index),
            )
            for place, name in enumerate(dealt.names)
        ]
        agreement = Agreement(exchange=mode, k=parameters.k, l=parameters.l)
        self._hub = Hub(agreement, patience_ns=patience_ns)
        self._wire = Wire(len(dealt.names), network, seed)
        self._collector = Collector(schema)
        self._kills = {dealt.names.index(kill.site): kill.position for kill in network.kills}
        self._place: dict[int, int] = {}  # the relay's index of a site -> its place here
        self._now = 0
        self._ticked = 0

    # --- the run

    def run(self, progress: Callable[[int], None]) -> None:
        """Let everything happen, until every record has its outcome."""
        for place, site in enumerate(self._sites):
            self._wire.say(place, site.session.hello())
            self._wire.flush(place, self._now)
        self._settle()
        while self._advance_to_next_event():
            pass  # until everybody is welcomed
        pace = max(1, self._parameters.delay_tuples // SLICES_PER_DELAY)
        if self._network.latency_tuples:
            pace = max(1, min(pace, self._network.latency_tuples // (2 * len(self._sites))))
        start_of_stream = self._now
        window = pace * len(self._sites)
        for start in range(0, len(self._dealt), window):
            stop = min(start + window, len(self._dealt))
            for place, site in enumerate(self._sites):
                self._now = start_of_stream + start
                self._feed(place, site, int(np.searchsorted(site.index, stop)))
            self._now = start_of_stream + stop
            self._settle()
            self._tick()
            progress(stop)
        for place, site in enumerate(self._sites):
            self._feed(place, site, len(site.index))  # also where there was nothing at all
        self._drain()

    def _feed(self, place: int, site: _Site, until: int) -> None:
        """Offer the site's records up to this one."""
        kill = self._kills.get(place)
        while not site.dead and site.accepted < until:
            upto = until if kill is None else min(until, kill)
            if site.accepted >= upto:
                self._kill(place, site)
                return
            rest = records_slice(site.records, site.accepted, upto)
            effects = site.session.step(RecordsArrived(rest, self._now * RECORD_NS))
            site.accepted += sum(each.count for each in effects if isinstance(each, Accept))
            self._carry_out(place, effects)
            self._settle()
        if not site.dead and not site.ended and site.accepted == len(site.index):
            site.ended = True
            self._carry_out(place, site.session.step(StreamEnded()))
            self._settle()

    def _kill(self, place: int, site: _Site) -> None:
        site.dead = True
        self._wire.cut(place)
        # Its connection breaks; what it owes will never come.
        index = self._hub.index_of(self._dealt.names[place])
        if index is not None:
            lost = self._hub.lose(index, self._now * RECORD_NS, for_ever=True)
            self._relay_effects(lost)

    def _drain(self) -> None:
        """The streams are over: time goes on until nobody waits for anything."""
        idle = 0
        while not all(site.dead or site.session.finished for site in self._sites):
            if not self._advance_to_next_event():
                idle += 1
                self._now += TICK_RECORDS
                self._tick()
                self._settle()
            if idle > STUCK_ROUNDS:
                raise DcastleError("the simulation is stuck: records wait, and nothing happens")
        while self._advance_to_next_event():
            pass
        self._relay_effects(self._hub.finish())

    def _advance_to_next_event(self) -> bool:
        at = self._wire.next_event
        if at is None:
            return False
        self._now = max(self._now, at)
        self._settle()
        self._tick()
        return True

    def _tick(self) -> None:
        if self._now - self._ticked < TICK_RECORDS:
            return
        self._ticked = self._now
        now_ns = self._now * RECORD_NS
        self._relay_effects(self._hub.tick(now_ns))
        for place, site in enumerate(self._sites):
            if not site.dead:
                self._carry_out(place, site.session.step(Ticked(now_ns)))
        self._settle()

    # --- messages

    def _settle(self) -> None:
        """Deliver everything that has arrived by now, and what follows from it at once."""
        self._wire.flush_relay(self._now)
        while (arrived := self._wire.arrived(self._now)) is not None:
            for said in arrived.from_site:
                sender = self._hub.index_of(self._dealt.names[arrived.site])
                effects = self._hub.step(sender, said, self._now * RECORD_NS)
                self._relay_effects(effects, arrived.site)
            for told in arrived.from_relay:
                site = self._sites[arrived.site]
                if not site.dead:
                    self._carry_out(arrived.site, site.session.step(Received(told)))
            self._wire.flush(arrived.site, self._now)
            self._wire.flush_relay(self._now)

    def _carry_out(self, place: int, effects: list[SessionEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._wire.say(place, effect.message)
        self._wire.flush(place, self._now)

    def _relay_effects(self, effects: list[Effect], sender: int = -1) -> None:
        """Carry out what the relay wants. It knows sites by the order of their first hello."""
        if len(self._place) < len(self._sites):
            for place, name in enumerate(self._dealt.names):
                index = self._hub.index_of(name)
                if index is not None:
                    self._place[index] = place
        for effect in effects:
            if isinstance(effect, Show):
                shown = effect.visible
                position = np.frombuffer(shown.payload, "<i8")
                record = self._sites[self._place[shown.site]].index[position]
                if isinstance(shown, VisibleAgain):
                    self._collector.add_again(shown.class_ids, record)
                else:
                    self._collector.add(shown.class_id, shown.bounds, record)
            else:
                # A site that was not welcomed has no index yet.
                place = sender if effect.site < 0 else self._place[effect.site]
                self._wire.tell(place, effect.message)

    # --- the result

    def outcome(self) -> Outcome:
        """What the run came to."""
        statistics = [site.session.statistics() for site in self._sites]
        accepted = sum(site.accepted for site in self._sites)
        details = added_up(statistics) | {
            f"relay: {name}": count for name, count in self._hub.statistics().items()
        }
        details["accepted"] = accepted
        details["lost with killed sites"] = accepted - self._collector.records
        return Outcome(
            merged=self._collector.merged(),
            delay_max=max((each["delay_max"] for each in statistics), default=0),
            open_clusters_max=max((s.session.open_clusters_max for s in self._sites), default=0),
            traffic=self._wire.traffic,
            details=details,
        )


def _session(
    schema: Schema,
    parameters: Parameters,
    mode: str,
    name: str,
    seed: int,
    place: int,
    patience_ns: int,
) -> AnySession:
    key = hashlib.sha256(b"dcastle simulate" + seed.to_bytes(16, "little", signed=True)).digest()
    own_seed = seed * SITES_MAX + place
    if mode == "paper":
        return PaperSession(schema, parameters, site=name, key=key, seed=own_seed)
    return Session(schema, parameters, site=name, key=key, seed=own_seed, patience_ns=patience_ns)
