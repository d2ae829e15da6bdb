"""Reading a source batch by batch, ahead: the next is parsed in a thread while the last is used."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from scripts.datasets.registry import DataSet
from site_node.batch import RawBatch, SourceOptions, csv_bytes, require_columns
from site_node.source import read_batches

# Batches that may wait, parsed: the reader stands still when there are more.
_AHEAD_MAX: Final = 2


def read_source(
    source: DataSet, needs: SourceOptions, *, rows: int | None = None, form: str | None = None
) -> Iterator[RawBatch]:
    """Yield the batches of a file, a pipe or a named set; `rows` is for the latter."""
    if source.entry is None:
        return read_batches(str(source.path or "-"), needs, form)
    return as_raw(source.name, source.batches(rows), needs)


def as_raw(
    name: str, batches: Iterable[pa.RecordBatch], needs: SourceOptions
) -> Iterator[RawBatch]:
    """Yield arrow's batches as those of a source."""
    first = 0
    for batch in batches:
        require_columns(name, batch.schema.names, needs.columns)
        columns = {column: batch.column(column) for column in needs.columns}
        rows, names = np.arange(first, first + batch.num_rows), tuple(batch.schema.names)
        length = csv_bytes(batch) if needs.measure else 0
        yield RawBatch(rows, columns, names=names, csv_bytes=length)
        first += batch.num_rows


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
