"""One site alone: batches in, published records out.

    source -> intake -> machine.step -> render -> sink, trace, dead letters

The pipeline does no waiting and reads no clock: batches and times come in from its host.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from core.config import Project
from core.events import SUPPRESSED, Effect, RecordsArrived, StreamEnded, Ticked
from core.loss import total_loss
from core.machine import Machine
from site_node.batch import RawBatch
from site_node.intake import Intake
from site_node.payload import Payload
from site_node.render import Renderer
from site_node.sink import Sink
from site_node.summary import Summary
from site_node.trace import DeadLetters, Trace


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
        site: str,
        trace: Trace | None = None,
    ) -> None:
        self._schema = project.schema
        self._machine = Machine(project.schema, project.parameters, seed=seed)
        self._payload = Payload(renderer.kept)
        self._sink = sink
        self._site = site
        self._trace = trace
        self.summary = Summary()
        self._intake = Intake(
            project, kept=renderer.kept, dead_letters=dead_letters, summary=self.summary
        )

    def take(self, batch: RawBatch, now_ns: int) -> None:
        """Take in a batch; publish what is decided by it."""
        taken = self._intake.take(batch)
        if self._trace is not None:
            self._trace.rejected(taken.rejected, [self._site] * len(taken.rejected))
        if len(taken.row):
            self._payload.append(taken.row, taken.columns)
            self._publish(self._machine.step(RecordsArrived(taken.records, now_ns)))
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
                self._trace.decided(row, self._site, effect.position, class_id)
