"""What a site of the `paper` exchange has to do: outcomes and messages, in the order they came."""

from __future__ import annotations

from collections import Counter

import numpy as np

from core.events import SUPPRESSED, Publish
from relay_server.pb import exchange_pb2 as pb
from site_node.exchange_events import Accept, Send, SessionEffect
from site_node.paper_boxes import BoxSpace
from site_node.paper_reuse import Published, table
from site_node.paper_window import Window
from site_node.publication import Publications


class Outbox:
    """Collects effects; `latest` is the position of the record that was accepted last."""

    def __init__(
        self,
        space: BoxSpace,
        window: Window,
        publications: Publications,
        statistics: Counter[str],
    ) -> None:
        self._space = space
        self._window = window
        self._publications = publications
        self._statistics = statistics
        self._effects: list[SessionEffect] = []
        self._position: list[int] = []
        self._outcome: list[Published | None] = []
        self.latest = -1

    def accept(self, count: int) -> None:
        """The records are taken in."""
        self._effects.append(Accept(count))

    def decide(self, position: int, outcome: Published | None) -> None:
        """The record is published with this class, or suppressed."""
        self._position.append(position)
        self._outcome.append(outcome)
        if outcome is None:
            self._statistics["suppressed"] += 1
        if self.latest - position > self._statistics["delay_max"]:
            self._statistics["delay_max"] = self.latest - position

    def share(self, clusters: list[pb.Cluster]) -> None:
        """Type 1: clusters that reached the threshold."""
        self._statistics["shared"] += len(clusters)
        self._effects.append(Send(pb.SiteMessage(share=pb.Share(clusters=clusters))))

    def release(self, cluster: pb.Cluster) -> None:
        """Type 2: a cluster that was put out."""
        self._statistics["released"] += 1
        self._effects.append(Send(pb.SiteMessage(release=pb.Release(clusters=[cluster]))))

    def remove(self, cluster_id: int) -> None:
        """Type 3: a cluster that was merged or split."""
        self._statistics["removed"] += 1
        self._effects.append(Send(pb.SiteMessage(remove=pb.Remove(ids=[cluster_id]))))

    def publish(self) -> None:
        """Turn what was decided into an effect, and tell the relay."""
        if not self._position:
            return
        row_of: dict[Published, int] = {}
        row = [
            SUPPRESSED if each is None else row_of.setdefault(each, len(row_of))
            for each in self._outcome
        ]
        position = np.array(self._position, np.int64)
        effect = Publish(
            position=position,
            row=np.array(row, np.int64),
            classes=table(self._space, list(row_of)),
        )
        person, value = self._window.person(position), self._window.value(position)
        self._effects += [effect, Send(self._publications.of(effect, person, value))]
        self._position, self._outcome = [], []

    def taken(self) -> list[SessionEffect]:
        """All that came together; the outbox is empty then."""
        effects, self._effects = self._effects, []
        return effects
