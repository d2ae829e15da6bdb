"""The site's machine: one pure `step(event) -> effects`, the only thing that changes its state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from core.config import Parameters
from core.errors import PrivacyBreachError
from core.events import (
    Classes,
    Effect,
    Event,
    Publish,
    Records,
    RecordsArrived,
    Ticked,
    joined,
)
from core.kernels import layout
from core.kernels.stream import advance
from core.order import InputOrder
from core.privacy import Gate
from core.schema import Schema
from core.snapshot import pack, unpack
from core.state import CHUNK_TUPLES, new_state

# Before any arrival: nothing is late by the clock.
_NEVER: Final = -(2**63)


class Machine:
    """CASTLE for one stream.

    Feed it events with `step`; it answers with what to publish. Records are known by their
    position in the stream, counted from 0; keeping their other columns is the caller's affair.
    The same events after the same seed give the same effects, on any machine.
    """

    def __init__(self, schema: Schema, parameters: Parameters, *, seed: int) -> None:
        self._schema = schema
        self._parameters = parameters
        self._state = new_state(schema, parameters, seed)
        self._gate = Gate(self._state)
        self._order = InputOrder() if parameters.order == "input" else None
        self._nothing = _no_records(schema)
        self._halted = ""

    def step(self, event: Event) -> list[Effect]:
        """Take in one event; returns what is to be published now, in order.

        Raises PrivacyBreachError when the gate stops a release. The machine is then halted: what
        it holds cannot be trusted, and every further step raises the same.
        """
        with self._guarded():
            effects = self._advance(event)
        if len(effects) > 1:
            effects = [joined(effects)]
        return self._order.step(effects) if self._order else effects

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """After a breach every further step raises the same."""
        if self._halted:
            raise PrivacyBreachError(self._halted)
        try:
            yield
        except PrivacyBreachError as breach:
            self._halted = str(breach)
            raise

    def _advance(self, event: Event) -> list[Effect]:
        if isinstance(event, RecordsArrived):
            now = self._tell(event.now_ns)
            effects = self._call(self._nothing, now, ended=False) if self._late(now) else []
            for start in range(0, len(event.records), CHUNK_TUPLES):
                chunk = records_slice(event.records, start, start + CHUNK_TUPLES)
                effects += self._call(chunk, now, ended=False)
            return effects
        if isinstance(event, Ticked):
            now = self._tell(event.now_ns)
            return self._call(self._nothing, now, ended=False) if self._late(now) else []
        return self._call(self._nothing, int(self._state.register[layout.CLOCK]), ended=True)

    def _tell(self, now_ns: int) -> int:
        """Time never runs backwards in here, whatever the host's clock does."""
        register = self._state.register
        register[layout.CLOCK] = max(int(register[layout.CLOCK]), now_ns)
        return int(register[layout.CLOCK])

    def _late(self, now: int) -> bool:
        return self._moment(now) != _NEVER and self.waiting > 0

    def _moment(self, now: int) -> int:
        """Whatever arrived at this moment or earlier is late by the clock."""
        seconds = self._parameters.delay_seconds
        return _NEVER if seconds is None else now - round(seconds * 1e9)

    def _call(self, records: Records, now: int, *, ended: bool) -> list[Effect]:
        state = self._state
        advance(
            state,
            records.code,
            records.raw,
            records.person,
            records.value,
            records.general,
            now,
            self._moment(now) if len(records) == 0 else _NEVER,
            ended,
        )
        return self._decided()

    def _decided(self) -> list[Effect]:
        """What the last call decided, once the gate has counted it again."""
        if self._state.out.made[0] == 0:
            return []
        self._gate.check(self._state)
        return [_publish(self._schema, self._state)]

    @property
    def position(self) -> int:
        """Position of the next record to arrive."""
        return int(self._state.register[layout.POSITION])

    @property
    def waiting(self) -> int:
        """How far back the oldest undecided record may be: an upper bound of those that wait."""
        register = self._state.register
        return int(register[layout.POSITION] - register[layout.DECIDED])

    @property
    def open_clusters(self) -> int:
        """|Gamma|."""
        return int(self._state.register[layout.OPEN])

    def statistics(self) -> dict[str, int]:
        """How often each case of delay_constraint was met, and what became of the clusters."""
        register = self._state.register
        return {name: int(register[place]) for name, place in _STATISTICS.items()}

    def snapshot(self) -> bytes:
        """The whole state as bytes; `restore` continues from them exactly here.

        A halted machine has none: what it holds cannot be trusted.
        """
        if self._halted:
            raise PrivacyBreachError(self._halted)
        extra = self._order.arrays() if self._order else {}
        return pack(self._schema, self._parameters, self._state, extra)

    @classmethod
    def restore(cls, data: bytes, schema: Schema, parameters: Parameters) -> Machine:
        """The machine that `snapshot` was taken of. SnapshotError for any other bytes."""
        machine = cls(schema, parameters, seed=0)
        extra = unpack(data, schema, parameters, machine._state)
        if machine._order:
            machine._order.load(extra)
        return machine


_STATISTICS: Final = {
    "delay_max": layout.DELAY_MAX,
    "classes": layout.FORMED,
    "clusters_opened": layout.OPENED,
    "clusters_released": layout.RELEASED,
    "splits": layout.SPLITS,
    "reused": layout.REUSED,
    "merges": layout.MERGED,
    "suppressed_outliers": layout.OUTLIERS,
    "suppressed_too_few": layout.TOO_FEW,
    "suppressed_by_policy": layout.REFUSED,
}


def records_slice(records: Records, start: int, stop: int) -> Records:
    """Some of the records, without a copy."""
    return Records(
        code=records.code[start:stop],
        raw=records.raw[start:stop],
        person=records.person[start:stop],
        value=records.value[start:stop],
        general=records.general[start:stop],
    )


def _no_records(schema: Schema) -> Records:
    return Records(
        code=np.zeros((0, len(schema.quasi_identifiers)), np.int32),
        raw=np.zeros((0, len(schema.numeric)), np.float64),
        person=np.zeros(0, np.int64),
        value=np.zeros(0, np.int64),
        general=np.zeros(0, np.bool_),
    )


def _publish(schema: Schema, state: layout.State) -> Publish:
    """Copy the step's outcomes out of the state's buffers."""
    out, decided, classes = state.out, int(state.out.made[0]), int(state.out.made[1])
    numeric, categorical = len(schema.numeric), len(schema.categorical)
    return Publish(
        position=out.decision["position"][:decided].copy(),
        row=out.decision["row"][:decided].copy(),
        classes=Classes(
            class_id=out.class_id[:classes].copy(),
            low=out.low[:classes, :numeric].copy(),
            high=out.high[:classes, :numeric].copy(),
            node=out.node[:classes, :categorical].copy(),
        ),
    )
