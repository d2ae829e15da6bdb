"""One end of a conversation in numbered frames: nothing is lost, nothing is taken in twice.

Frames are numbered from 1 in each direction. The receiver takes them in order and acknowledges the
last one it took; the sender keeps a frame until then and sends it again when that takes too long.
Neither end knows time or the wire: its host does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

# Frames that are kept for the other end. Full means: stop taking in records.
FRAMES_KEPT_MAX: Final = 65_536

M = TypeVar("M")


class Line(Generic[M]):
    """What is to be said, what was said and not yet acknowledged, and what was heard."""

    def __init__(self) -> None:
        self._news: list[M] = []
        self._kept: deque[tuple[int, list[M]]] = deque()
        self._last_said = 0
        self.heard = 0  # number of the last frame that was taken in
        self.ignored = 0  # frames that came again, or before their turn

    def say(self, message: M) -> None:
        """Put a message into the next frame."""
        self._news.append(message)

    @property
    def has_news(self) -> bool:
        """Whether there is something to say that was not said yet."""
        return bool(self._news)

    @property
    def is_full(self) -> bool:
        """Whether the other end is too far behind to say more."""
        return len(self._kept) >= FRAMES_KEPT_MAX

    def next_frame(self) -> tuple[int, list[M]]:
        """Number and messages of the next frame, which is kept until it is acknowledged."""
        self._last_said += 1
        frame = self._last_said, self._news
        self._news = []
        self._kept.append(frame)
        return frame

    def kept(self) -> Iterator[tuple[int, list[M]]]:
        """All frames that were not acknowledged, oldest first, to be sent again."""
        return iter(self._kept)

    def hear(self, sequence: int, acknowledged: int, *, has_messages: bool) -> bool:
        """A frame came in; whether its messages are to be taken in now.

        A frame without messages is a bare acknowledgement. One without a number (0) came over a
        transport that keeps the order: it is the next one.
        """
        while self._kept and self._kept[0][0] <= acknowledged:
            self._kept.popleft()
        if not has_messages:
            return False
        if sequence and sequence != self.heard + 1:
            self.ignored += 1
            return False
        self.heard += 1
        return True
