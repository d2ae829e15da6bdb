"""Reading ahead: the next batch is parsed in a thread while the last one is anonymised."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Final

from site_node.batch import RawBatch

# Batches that may wait, parsed: the reader stands still when there are more.
_AHEAD_MAX: Final = 2


class Ahead:
    """Iterates over batches that a thread reads; `next_batch` can give up waiting for a while."""

    def __init__(self, batches: Iterator[RawBatch]) -> None:
        self._batches = batches
        self._queue: queue.Queue[RawBatch | BaseException | None] = queue.Queue(_AHEAD_MAX)
        threading.Thread(target=self._read, name="reader", daemon=True).start()

    def next_batch(self, timeout_s: float | None) -> RawBatch | None:
        """The next batch, or None at the end; raises queue.Empty when none came in time."""
        item = self._queue.get(timeout=timeout_s)
        if isinstance(item, BaseException):
            raise item
        return item

    def _read(self) -> None:
        try:
            for batch in self._batches:
                self._queue.put(batch)
            self._queue.put(None)
        except BaseException as error:
            self._queue.put(error)
