"""What goes into a site's session beside the machine's events, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass

from core.events import Publish, RecordsArrived, StreamEnded, Ticked
from relay_server.pb import exchange_pb2 as pb


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """The relay said something."""

    message: pb.RelayMessage


@dataclass(frozen=True, slots=True)
class Accept:
    """So many of the records that were offered are taken in; offer the others again.

    A session stops in front of a record when it has something to settle first. The host delivers
    what there is to deliver and goes on; it need not wait.
    """

    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Send:
    """Say this to the relay."""

    message: pb.SiteMessage


SessionEvent = RecordsArrived | Ticked | StreamEnded | Received
SessionEffect = Accept | Send | Publish
