"""Clusters of the `paper` exchange as they are sent (dCASTLE, section 4.2)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from core.boxes import BoxCodec
from core.config import Parameters
from core.exchange import PROTOCOL_VERSION
from core.schema import Schema
from relay_server.pb import exchange_pb2 as pb
from site_node.paper_boxes import BoxSpace, Extent
from site_node.paper_values import SensitiveValues, SharedValues
from site_node.telling import Teller

# Ids of classes are int64.
_ID_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What a message says of a cluster: "ID, size, QI generalized values, distinct values"."""

    id: int
    size: int
    box: Extent
    values: SharedValues


class Summaries:
    """Clusters to messages and back.

    A box travels on a grid of 256 points, rounded outward (core.boxes), where the paper sends exact
    ends. So that all sites can publish a released cluster with the same generalisation, as they
    would in the paper, its sender publishes it as it was sent: `encode` returns that box, too.
    """

    def __init__(self, schema: Schema, space: BoxSpace, values: SensitiveValues) -> None:
        self._codec = BoxCodec(schema)
        self._space = space
        self._values = values

    def encode(
        self, cluster_id: int, size: int, box: Extent, local: Collection[int], shared: SharedValues
    ) -> tuple[pb.Cluster, Extent]:
        """The cluster as it is sent, and its box as it arrives."""
        data = self._codec.encode(self._space.to_codes(box))
        values = self._values.encode(cluster_id, local, shared)
        message = pb.Cluster(id=cluster_id, size=size, box=data, values=values)
        return message, self._space.joined(self._box(data), box)

    def decode(self, cluster: pb.Cluster) -> Summary:
        """What another site sent; ValueError when it cannot be that."""
        if not 0 < cluster.id <= _ID_MAX:
            raise ValueError(f"{cluster.id} is no id of a cluster")
        if cluster.size == 0:
            raise ValueError(f"cluster {cluster.id} has no size")
        values = self._values.decode(cluster.id, cluster.values)
        return Summary(cluster.id, cluster.size, self._box(cluster.box), values)

    def _box(self, data: bytes) -> Extent:
        box = self._codec.decode(data)
        return self._space.from_codes(box, self._codec.nodes(box))


def hello(schema: Schema, parameters: Parameters, teller: Teller, site: str) -> pb.SiteMessage:
    """How a site introduces itself."""
    return pb.SiteMessage(
        hello=pb.Hello(
            protocol_version=PROTOCOL_VERSION,
            site=site,
            schema_fingerprint=bytes.fromhex(schema.fingerprint),
            k=parameters.k,
            l=parameters.l,
            exchange="paper",
            persons_disjoint=teller.disjoint,
            values_as_tokens=teller.values_as_tokens,
            numeric=len(schema.numeric),
            categorical=len(schema.categorical),
        )
    )
