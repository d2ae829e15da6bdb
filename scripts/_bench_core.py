"""What the machine alone does: records a second, the longest stall, the loss."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.config import Parameters, Project, Split
from core.encode import Encoder
from core.events import Records, RecordsArrived, StreamEnded
from core.loss import total_loss
from core.machine import Machine
from core.schema import Schema
from scripts._project import first_attributes
from scripts.datasets.tables import repeated_order

BATCH_TUPLES: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table; the defaults are CASTLE's own."""

    name: str
    k: int = 100
    l: int = 1
    delta: int = 10_000
    beta: int = 50
    attributes: int = 10


def settings() -> Iterator[Setting]:
    """The paper's setting for l = 1 and l = 2, then one parameter at a time, then corners."""
    for l in (1, 2):
        yield Setting(name=f"paper, l={l}", l=l)
    for k in (10, 50, 200, 400):
        yield Setting(name="k", k=k, l=2)
    for delta in (1_000, 100_000):
        yield Setting(name="delta", delta=delta, l=2)
    for beta in (25, 100, 200):
        yield Setting(name="beta", beta=beta, l=2)
    for attributes in (2, 4, 6, 8):
        yield Setting(name="attributes", attributes=attributes, l=2)
    for k, delta, beta in (
        (10, 1_000, 200),
        (10, 100_000, 25),
        (10, 100_000, 50),
        (10, 100_000, 200),
        (400, 1_000, 25),
        (400, 100_000, 25),
        (400, 100_000, 200),
    ):
        for attributes in (2, 10):
            yield Setting(name="corner", k=k, delta=delta, beta=beta, attributes=attributes, l=2)


class CoreBench:
    """A stream in memory, run through machines of different settings."""

    def __init__(self, project: Project, table: pa.Table, rows: int, seed: int) -> None:
        self._project = project
        self._table = table
        self._order = repeated_order(table.num_rows, rows, seed)

    def run(self, setting: Setting, *, repeat: int, split: Split) -> dict[str, Any]:
        """Run the setting `repeat` times; every batch counts with its fastest time.

        The work of a batch is the same each time, so what is slower is the machine's other work.
        """
        schema = first_attributes(self._project.schema, setting.attributes)
        parameters = replace(
            self._project.parameters,
            k=setting.k,
            l=setting.l,
            delay_tuples=setting.delta,
            beta=setting.beta,
            split=split,
        )
        records = self._records(schema)
        runs = [_time(schema, parameters, records) for _ in range(repeat)]
        fastest = np.min([times for times, _ in runs], axis=0)
        return {
            "name": setting.name,
            "k": setting.k,
            "l": setting.l,
            "delta": setting.delta,
            "beta": setting.beta,
            "attributes": setting.attributes,
            "tuples": len(records),
            "tuples_per_second": len(records) / fastest.sum(),
            "worst_batch_ms": fastest.max() * 1e3,
            "information_loss": runs[0][1],
        }

    def _records(self, schema: Schema) -> Records:
        columns = {
            name: self._table.column(name).combine_chunks() for name in self._table.schema.names
        }
        encoded = Encoder(schema, self._project.input.missing).encode(columns, self._table.num_rows)
        assert not encoded.faults
        once, order = encoded.records, self._order
        return Records(
            code=once.code[order],
            raw=once.raw[order],
            person=np.arange(len(order)) if schema.person is None else once.person[order],
            value=once.value[order],
            general=once.general[order],
        )


def _time(
    schema: Schema, parameters: Parameters, records: Records
) -> tuple[NDArray[np.float64], float]:
    """Processor seconds of every batch, and the mean loss."""
    batches = [
        RecordsArrived(
            Records(
                code=records.code[start : start + BATCH_TUPLES],
                raw=records.raw[start : start + BATCH_TUPLES],
                person=records.person[start : start + BATCH_TUPLES],
                value=records.value[start : start + BATCH_TUPLES],
                general=records.general[start : start + BATCH_TUPLES],
            )
        )
        for start in range(0, len(records), BATCH_TUPLES)
    ]
    machine = Machine(schema, parameters, seed=1)
    times = np.zeros(len(batches))
    loss = 0.0
    gc.disable()
    try:
        for place, event in enumerate(batches):
            started = time.thread_time()
            effects = machine.step(event)
            times[place] = time.thread_time() - started
            loss += sum(total_loss(schema, effect) for effect in effects)
    finally:
        gc.enable()
    loss += sum(total_loss(schema, effect) for effect in machine.step(StreamEnded()))
    return times, loss / len(records)
