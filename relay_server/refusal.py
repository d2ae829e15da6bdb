"""A message that is not taken in: why, in a form that its sender can be told."""

from __future__ import annotations

from core.errors import DcastleError
from relay_server.pb import exchange_pb2 as pb


class MessageRefused(DcastleError):  # noqa: N818 - it is the sender's error, not ours
    """The message changed nothing; its sender is told the reason."""

    def __init__(self, reason: pb.Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def require(holds: bool, reason: pb.Reason, detail: str) -> None:
    """Refuse the message unless this holds."""
    if not holds:
        raise MessageRefused(reason, detail)
