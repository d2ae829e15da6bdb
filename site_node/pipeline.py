"""One site alone: batches in, published records out.

    source -> encode -> machine.step -> render -> sink, trace, dead letters

The pipeline does no waiting and reads no clock: batches and times come in from its host.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa

from core.config import Project
from core.encode import FOREIGN_MAX, Encoded, Encoder
from core.events import SUPPRESSED, Effect, RecordsArrived, StreamEnded, Ticked
from core.loss import total_loss
from core.machine import Machine
from site_node.batch import RawBatch, SourceOptions
from site_node.payload import Payload
from site_node.render import Renderer
from site_node.sink import Sink
from site_node.summary import Summary
from site_node.trace import DeadLetters, Trace


def source_options(project: Project) -> SourceOptions:
    """What the project's schema needs of its source."""
    schema = project.schema
    sensitive = [schema.sensitive] if schema.sensitive else []
    names = [a.name for a in (*schema.quasi_identifiers, *sensitive, *schema.insensitive)]
    if schema.person is not None:
        names.append(schema.person)
    return SourceOptions(
        columns=tuple(names),
        numeric=frozenset(a.name for a in schema.numeric),
        categorical=frozenset(a.name for a in schema.categorical),
        missing=project.input.missing,
        delimiter=project.input.delimiter,
    )


class Pipeline:
    """Anonymises one stream and keeps count."""

    def __init__(
        self,
        project: Project,
        *,
        seed: int,
        sink: Sink,
        dead_letters: DeadLetters,
        renderer: Renderer,
        trace: Trace | None = None,
    ) -> None:
        self._schema = project.schema
        self._encoder = Encoder(project.schema, project.input.missing)
        self._machine = Machine(project.schema, project.parameters, seed=seed)
        self._payload = Payload(renderer.kept)
        self._kept = renderer.kept
        self._used = frozenset(source_options(project).columns)
        self._sink = sink
        self._trace = trace
        self._dead_letters = dead_letters
        self.summary = Summary()

    def take(self, batch: RawBatch, now_ns: int) -> None:
        """Take in a batch; publish what is decided by it."""
        encoded = self._encoder.encode(batch.columns, len(batch.row))
        self._reject(batch, encoded)
        row = batch.row
        columns = {name: batch.columns[name] for name in self._kept}
        if len(encoded.accepted) < len(row):
            row = row[encoded.accepted]
            columns = {name: column.take(encoded.accepted) for name, column in columns.items()}
        # What is no text has been rejected; batches differ in how they hold text.
        columns = {name: column.cast(pa.string()) for name, column in columns.items()}
        self.summary.accepted += len(row)
        if len(row):
            self._payload.append(row, columns)
            self._publish(self._machine.step(RecordsArrived(encoded.records, now_ns)))
            self._payload.drop_before(self._machine.position - self._machine.waiting)

    def tick(self, now_ns: int) -> None:
        """Time has passed."""
        self._publish(self._machine.step(Ticked(now_ns)))

    def finish(self) -> None:
        """The stream has ended: decide all that is left."""
        self._publish(self._machine.step(StreamEnded()))
        self.summary.statistics = self._machine.statistics()
        self.summary.delay_max = self.summary.statistics.pop("delay_max")

    def _publish(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            row, kept = self._payload.take(effect.position)
            class_id = self._sink.write(effect, kept)
            suppressed = int(np.count_nonzero(effect.row == SUPPRESSED))
            self.summary.suppressed += suppressed
            self.summary.published += len(effect) - suppressed
            self.summary.loss_total += total_loss(self._schema, effect)
            if self._trace is not None:
                self._trace.decided(row, effect.position, class_id)

    def _reject(self, batch: RawBatch, encoded: Encoded) -> None:
        """Keep every row that is not accepted, and count why."""
        summary = self.summary
        summary.rows += len(batch.row) + len(batch.broken)
        summary.dropped.update((name, None) for name in batch.names if name not in self._used)
        for broken in batch.broken:
            summary.rejected["", broken.kind] += 1
            self._dead_letters.add(broken.row, "", broken.reason, "", broken.text)
        for fault in encoded.faults:
            summary.rejected[fault.attribute, fault.reason] += 1
            record = _record(batch, fault.row)
            row = int(batch.row[fault.row])
            self._dead_letters.add(row, fault.attribute, fault.reason, fault.value, record)
        if self._trace is not None:
            rows = [broken.row for broken in batch.broken]
            self._trace.rejected(rows + [int(batch.row[fault.row]) for fault in encoded.faults])
        summary.suppressed_by_policy.update(encoded.suppressed)
        summary.clamped.update(encoded.clamped)
        for name, values in encoded.foreign.items():
            known = summary.foreign.setdefault(name, {})
            for value in values:
                if len(known) < FOREIGN_MAX:
                    known[value] = None


def _record(batch: RawBatch, at: int) -> dict[str, Any]:
    return {name: _json_value(column[at].as_py()) for name, column in batch.columns.items()}


def _json_value(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode(errors="backslashreplace")
        case float() if value.is_integer():
            return int(value)
        case float() if not isfinite(value):
            return str(value)
        case None | str() | int() | float():
            return value
    return str(value)
