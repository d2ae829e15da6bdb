"""The files of a simulated run: the merged stream to publish, and the trace for auditors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.events import SUPPRESSED, Classes, Publish
from core.schema import Schema
from scripts.simulation.deal import Dealing
from scripts.simulation.request import Files
from scripts.simulation.result import Merged
from site_node.render import Renderer
from site_node.sink import AtomicFile, Pipe, Sink, open_target
from site_node.source import format_of
from site_node.trace import DeadLetters, Trace

# Records that are put into text at a time.
_SLICE: Final = 131_072


@dataclass(frozen=True, slots=True)
class Outputs:
    """The files of a run, open; None where nobody asked for one."""

    letters: DeadLetters
    sink: Sink | None
    trace: Trace | None
    report: AtomicFile | Pipe | None

    def write_report(self, text: str) -> None:
        """Write the report, if there is to be one."""
        if self.report is not None:
            self.report.stream.write(text.encode())

    def write_outcomes(self, dealing: Dealing, merged: Merged) -> None:
        """Write the merged stream and the trace."""
        if self.sink is not None:
            write_merged(merged, dealing, self.sink)
        if self.trace is not None:
            write_trace(merged, dealing, self.trace)

    def keep_report(self) -> None:
        """Give the report its name even if nothing else gets one."""
        if self.report is not None:
            self.report.commit()


@contextmanager
def opened(files: Files, schema: Schema) -> Iterator[Outputs]:
    """Open all files before the work; they get their names after it, or vanish if it fails."""
    with ExitStack() as undo:
        letters = DeadLetters(files.letters)
        undo.callback(letters.discard)
        trace = Trace(files.trace) if files.trace else None
        if trace is not None:
            undo.callback(trace.discard)
        report = open_target(files.report) if files.report else None
        if report is not None:
            undo.callback(report.discard)
        with (
            Sink(files.output, format_of(files.output), Renderer(schema))
            if files.output
            else nullcontext()
        ) as sink:
            outputs = Outputs(letters, sink, trace, report)
            yield outputs
        undo.pop_all()
    letters.commit()
    if trace is not None:
        trace.commit()
    outputs.keep_report()


def write_merged(merged: Merged, dealing: Dealing, sink: Sink) -> None:
    """Write the published records in their order."""
    for start in range(0, len(merged.record), _SLICE):
        record = merged.record[start : start + _SLICE]
        row, classes = _only(merged.row[start : start + _SLICE], merged.classes)
        sink.write(Publish(position=record, row=row, classes=classes), dealing.kept(record))


def write_trace(merged: Merged, dealing: Dealing, trace: Trace) -> None:
    """Write every input row's outcome: published records in their order, before them the others.

    A record that its site took to the grave was never accepted for good: it counts as rejected.
    """
    trace.rejected(dealing.rejected, dealing.rejected_site)
    dead = lost_records(merged, len(dealing.dealt))
    trace.rejected(dealing.dealt.row[dead].tolist(), dealing.sites(dead).to_pylist())
    class_id = np.append(merged.classes.class_id, 0)
    for start in range(0, len(merged.record), _SLICE):
        record, row = (each[start : start + _SLICE] for each in (merged.record, merged.row))
        trace.decided(
            dealing.dealt.row[record],
            dealing.sites(record),
            dealing.position[record],
            pa.array(class_id[row], pa.int64(), mask=row == SUPPRESSED),
        )


def lost_records(merged: Merged, records: int) -> NDArray[np.int64]:
    """Records that have no outcome, because their site died."""
    decided = np.zeros(records, np.bool_)
    decided[merged.record] = True
    return np.flatnonzero(~decided)


def _only(row: NDArray[np.int64], classes: Classes) -> tuple[NDArray[np.int64], Classes]:
    """The classes that these records are in, and each record's row in that smaller table."""
    used = np.unique(row[row != SUPPRESSED])
    table = Classes(
        class_id=classes.class_id[used],
        low=classes.low[used],
        high=classes.high[used],
        node=classes.node[used],
    )
    return np.where(row == SUPPRESSED, SUPPRESSED, np.searchsorted(used, row)), table
