"""Cluster summaries: what a site tells of its open clusters, and when (dCASTLE, section 4.2).

A cluster is shared once it has ceil(k/n) persons, and removed when it is merged, split, published
or emptied. A class that this site published alone and that is good enough for reuse is announced.
"""

from __future__ import annotations

from core.boxes import BoxCodec
from core.events import Publish
from core.exchange import PERSONS_REVEALED_MIN, SITES_MAX
from core.joint import JointMachine
from core.loss import class_losses
from core.schema import Schema
from relay_server.pb import exchange_pb2 as pb
from site_node.publication import bounds_of
from site_node.telling import Teller


class Summaries:
    """What was shared, and what has to be said about it."""

    def __init__(
        self, schema: Schema, machine: JointMachine, codec: BoxCodec, teller: Teller, k: int
    ) -> None:
        self._schema = schema
        self._machine = machine
        self._codec = codec
        self._teller = teller
        self._k = k
        self._shared: dict[int, int] = {}  # serial number of a cluster -> its id

    def news(self, sites: int) -> list[pb.SiteMessage]:
        """What has changed since the last call."""
        threshold = max(PERSONS_REVEALED_MIN, -(-self._k // sites))
        large = self._machine.clusters_over(threshold)
        still = self._machine.clusters_over(1)
        gone = [serial for serial in self._shared if serial not in still]
        messages = []
        if gone:
            ids = [self._shared.pop(serial) for serial in gone]
            messages.append(pb.SiteMessage(remove=pb.Remove(ids=ids)))
        new = [serial for serial in large if serial not in self._shared]
        if new:
            clusters = [self._summary(serial, large[serial]) for serial in new]
            messages.append(pb.SiteMessage(share=pb.Share(clusters=clusters)))
        return messages

    def _summary(self, serial: int, slot: int) -> pb.Cluster:
        size, box, values = self._machine.cluster(slot)
        number = serial * SITES_MAX + self._machine.site_index
        self._shared[serial] = number
        return pb.Cluster(
            id=number,
            size=size,
            box=self._codec.encode(box),
            values=self._teller.values(number, values),
        )

    def released(self, effect: Publish, fresh: list[int]) -> list[pb.SiteMessage]:
        """Announce classes that were formed here and that are better than the usual ones."""
        losses = class_losses(self._schema, effect.classes)
        good = losses < self._machine.mean_loss
        classes = [
            pb.Class(id=number, bounds=bounds_of(effect.classes, row))
            for row, number in enumerate(effect.classes.class_id.tolist())
            if good[row] and number in fresh
        ]
        return [pb.SiteMessage(release=pb.Release(classes=classes))] if classes else []
