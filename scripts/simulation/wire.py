"""The virtual network: frames are really encoded, travel for a while, get lost and come twice.

Time is counted in records of the whole stream.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from core.line import Line
from relay_server.pb import exchange_pb2 as pb
from scripts.simulation.network import Network
from scripts.simulation.traffic import Traffic

# A frame that is not acknowledged is sent again after so many times its way and back, and a little.
RESEND_TIMES: Final = 4
RESEND_MORE: Final = 64
# Where nothing gets lost, so many frames are acknowledged at once.
ACKNOWLEDGE_EVERY: Final = 64


class Arrived(NamedTuple):
    """Messages that came out of a frame: a site's for the relay, or the relay's for a site."""

    site: int
    from_site: Sequence[pb.SiteMessage] = ()
    from_relay: Sequence[pb.RelayMessage] = ()


class _Frame(NamedTuple):
    at: int
    number: int
    site: int
    upward: bool
    data: bytes


@dataclass(slots=True, eq=False)
class _Ends:
    """Both ends of the line between a site and the relay."""

    site: Line[pb.SiteMessage] = field(default_factory=Line)
    relay: Line[pb.RelayMessage] = field(default_factory=Line)
    site_owes: bool = False  # an acknowledgement
    relay_owes: bool = False
    resend_at: int | None = None


class Wire:
    """All lines between the relay and its sites."""

    def __init__(self, sites: int, network: Network, seed: int) -> None:
        self._network = network
        self._random = random.Random(seed)  # noqa: S311 - it decides what gets lost
        self._ends: dict[int, _Ends] = {site: _Ends() for site in range(sites)}
        self._talking: dict[int, None] = {}  # sites that the relay has something to say to
        self._under_way: list[_Frame] = []
        self._number = 0
        # Where frames get lost or come twice, each has to say which one it is.
        self._explicit = bool(network.drop or network.duplicate)
        self.traffic = Traffic()

    def say(self, site: int, message: pb.SiteMessage) -> None:
        """A site says something to the relay."""
        if site in self._ends:
            self._ends[site].site.say(message)

    def tell(self, site: int, message: pb.RelayMessage) -> None:
        """The relay says something to a site."""
        if site in self._ends:
            self._ends[site].relay.say(message)
            self._talking[site] = None

    def cut(self, site: int) -> None:
        """The site is dead: nothing comes from it and nothing reaches it."""
        self._ends.pop(site, None)
        self._talking.pop(site, None)

    def flush(self, site: int, now: int) -> None:
        """Send what the site has to say, in one frame."""
        ends = self._ends.get(site)
        if ends is not None and (ends.site.has_news or ends.site_owes):
            bare = not ends.site.has_news
            sequence, messages = (0, []) if bare else ends.site.next_frame()
            self._send_up(site, ends, sequence, messages, now)

    def flush_relay(self, now: int) -> None:
        """Send what the relay has to say, one frame to each site."""
        talking, self._talking = self._talking, {}
        for site in talking:
            ends = self._ends.get(site)
            if ends is not None and (ends.relay.has_news or ends.relay_owes):
                bare = not ends.relay.has_news
                sequence, messages = (0, []) if bare else ends.relay.next_frame()
                self._send_down(site, ends, sequence, messages, now)

    @property
    def next_event(self) -> int | None:
        """When the next frame arrives or is sent again; None: the wire is quiet."""
        times = [ends.resend_at for ends in self._ends.values() if ends.resend_at is not None]
        if self._under_way:
            times.append(self._under_way[0].at)
        return min(times, default=None)

    def arrived(self, now: int) -> Arrived | None:
        """What has arrived by now, one frame at a time; frames that come again are ignored."""
        if self._network.drop:
            self._resend(now)
        while self._under_way and self._under_way[0].at <= now:
            frame = heapq.heappop(self._under_way)
            ends = self._ends.get(frame.site)
            if ends is None:
                continue
            arrived = self._hear(ends, frame)
            if arrived is not None:
                return arrived
        return None

    def _hear(self, ends: _Ends, frame: _Frame) -> Arrived | None:
        site, lossy = frame.site, self._network.drop > 0
        if frame.upward:
            said = pb.SiteFrame.FromString(frame.data)
            new = ends.relay.hear(
                said.sequence, said.acknowledged, has_messages=bool(said.messages)
            )
            ends.relay_owes = lossy and bool(said.messages)
            if ends.relay_owes:
                self._talking[site] = None
            return Arrived(site, from_site=said.messages) if new else None
        told = pb.RelayFrame.FromString(frame.data)
        new = ends.site.hear(told.sequence, told.acknowledged, has_messages=bool(told.messages))
        ends.site_owes = lossy and bool(told.messages)
        return Arrived(site, from_relay=told.messages) if new else None

    def _resend(self, now: int) -> None:
        for site, ends in self._ends.items():
            if ends.resend_at is None or ends.resend_at > now:
                continue
            ends.resend_at = None
            for sequence, said in list(ends.site.kept()):
                self._send_up(site, ends, sequence, said, now)
            for sequence, told in list(ends.relay.kept()):
                self._send_down(site, ends, sequence, told, now)

    def _send_up(
        self, site: int, ends: _Ends, sequence: int, messages: list[pb.SiteMessage], now: int
    ) -> None:
        frame = pb.SiteFrame(messages=messages)
        if self._explicit or sequence % ACKNOWLEDGE_EVERY == 0:
            frame.sequence, frame.acknowledged = sequence, ends.site.heard
        ends.site_owes = False
        data = frame.SerializeToString()
        self.traffic.sent_up(messages, len(data))
        self._send(site, ends, data, now, upward=True)

    def _send_down(
        self, site: int, ends: _Ends, sequence: int, messages: list[pb.RelayMessage], now: int
    ) -> None:
        frame = pb.RelayFrame(messages=messages)
        if self._explicit or sequence % ACKNOWLEDGE_EVERY == 0:
            frame.sequence, frame.acknowledged = sequence, ends.relay.heard
        ends.relay_owes = False
        data = frame.SerializeToString()
        self.traffic.sent_down(len(data))
        self._send(site, ends, data, now, upward=False)

    def _send(self, site: int, ends: _Ends, data: bytes, now: int, *, upward: bool) -> None:
        network, way = self._network, self._network.latency_tuples
        if network.drop and ends.resend_at is None:
            ends.resend_at = now + RESEND_TIMES * 2 * way + RESEND_MORE
        copies = 1
        if network.duplicate and self._random.random() < network.duplicate:
            copies = 2
        for copy in range(copies):
            if network.drop and self._random.random() < network.drop:
                continue
            self._number += 1
            at = now + way * (1 + copy)
            heapq.heappush(self._under_way, _Frame(at, self._number, site, upward, data))
