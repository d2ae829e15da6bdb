"""What went over the wire, in messages and bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from relay_server.pb import exchange_pb2 as pb


@dataclass(slots=True)
class Traffic:
    """Counted as frames are sent. `bytes_by_kind` is what goes to the relay.

    A publication is the product, not overhead: of it only the proof counts, that is the persons and
    values that a site tells with a class of its own.
    """

    messages: Counter[str] = field(default_factory=Counter)
    bytes_by_kind: Counter[str] = field(default_factory=Counter)
    bytes_delivered: int = 0

    @property
    def bytes_to_relay(self) -> int:
        """Everything but the published records."""
        return sum(self.bytes_by_kind.values())

    def sent_up(self, messages: list[pb.SiteMessage], frame_bytes: int) -> None:
        """A site sent a frame."""
        envelope, overhead = frame_bytes, False
        for message in messages:
            kind, size = str(message.WhichOneof("body")), message.ByteSize()
            envelope -= size
            if kind == "publication":
                proof = sum(_proof_bytes(part) for part in message.publication.parts)
                if proof:
                    self.bytes_by_kind["proof"] += proof
            else:
                overhead = True
                self.messages[kind] += 1
                self.bytes_by_kind[kind] += size
        if overhead or not messages:
            self.bytes_by_kind["frame"] += envelope

    def sent_down(self, frame_bytes: int) -> None:
        """The relay sent a frame."""
        self.bytes_delivered += frame_bytes


def _proof_bytes(part: pb.Part) -> int:
    if not part.HasField("persons"):
        return 0
    return part.persons.ByteSize() + len(part.values)
