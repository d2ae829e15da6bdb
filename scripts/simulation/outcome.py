"""What a run decided, collected record by record."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.events import SUPPRESSED, Classes
from core.schema import Schema
from scripts.simulation.result import Merged
from scripts.simulation.traffic import Traffic


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Outcome:
    """A run before it is measured."""

    merged: Merged
    delay_max: int
    open_clusters_max: int
    traffic: Traffic = field(default_factory=Traffic)
    details: dict[str, Any] = field(default_factory=dict)


class Collector:
    """Builds the merged output from parts of classes as they become visible."""

    def __init__(self, schema: Schema) -> None:
        self._numeric, self._categorical = len(schema.numeric), len(schema.categorical)
        self._rows: dict[tuple[int, bytes], int] = {}
        self._row_of: dict[int, int] = {}  # a class's first row
        self._record: list[NDArray[np.int64]] = []
        self._row: list[NDArray[np.int64]] = []
        self.records = 0

    def add(self, class_id: int | None, bounds: bytes, record: NDArray[np.int64]) -> None:
        """Records of one class, or suppressed ones."""
        row = SUPPRESSED
        if class_id is not None:
            row = self._rows.setdefault((class_id, bounds), len(self._rows))
            self._row_of.setdefault(class_id, row)
        self._append(record, np.full(len(record), row, np.int64))

    def add_again(self, class_ids: tuple[int, ...], record: NDArray[np.int64]) -> None:
        """Records of classes that are known."""
        self._append(record, np.array([self._row_of[each] for each in class_ids], np.int64))

    def _append(self, record: NDArray[np.int64], row: NDArray[np.int64]) -> None:
        self._record.append(record)
        self._row.append(row)
        self.records += len(record)

    def merged(self) -> Merged:
        """Everything so far."""
        none = np.zeros(0, np.int64)
        return Merged(
            record=np.concatenate([none, *self._record]),
            row=np.concatenate([none, *self._row]),
            classes=self._classes(),
        )

    def _classes(self) -> Classes:
        numeric, categorical = self._numeric, self._categorical
        ids = np.array([class_id for class_id, _ in self._rows], np.int64)
        data = b"".join(bounds for _, bounds in self._rows)
        shape = np.dtype([("ends", "<f8", (2, numeric)), ("node", "<i4", (categorical,))])
        table = np.frombuffer(data, shape)
        return Classes(
            class_id=ids,
            low=table["ends"][:, 0].astype(np.float64),
            high=table["ends"][:, 1].astype(np.float64),
            node=table["node"].astype(np.int32),
        )


def added_up(counters: list[dict[str, int]]) -> dict[str, int]:
    """Counters of several sites as one; what is a maximum is not added."""
    total: Counter[str] = Counter()
    for each in counters:
        total.update({name: count for name, count in each.items() if name != "delay_max"})
    return dict(total)
