"""What a simulated run came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from core.events import Classes

Mode = Literal["centralised", "none", "paper", "strict"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Merged:
    """The merged output: records in the order of publication, each with a row of `classes`.

    `row` is SUPPRESSED (-1) for a suppressed record. A class that is reused, or that several sites
    published, is in `classes` once. Records with equal id and equal bounds are one class.
    """

    record: NDArray[np.int64]  # [n] index into Dealt
    row: NDArray[np.int64]  # [n]
    classes: Classes


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A published class that is short of persons or values."""

    class_id: int
    persons: int
    values: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RunResult:
    """One run. The fields up to tuples_per_second are the JSON of `dcastle simulate`."""

    mode: Mode
    sites: int
    tuples: int
    information_loss: float | None
    suppressed: int
    classes: int
    violations_k: int
    violations_l: int
    delay_max: int  # most records accepted at its site after one before its outcome was decided
    messages: int  # to the relay
    bytes_to_relay: int
    bytes_delivered: int
    dataset_bytes: int
    overhead_percent: float
    open_clusters_max: int
    tuples_per_second: float

    # For the report.
    merged: Merged
    violations: tuple[Violation, ...] = ()
    class_sizes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    loss_over_time: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    loss_by_site: dict[str, float] = field(default_factory=dict)
    bytes_by_kind: dict[str, int] = field(default_factory=dict)  # to the relay
    messages_by_kind: dict[str, int] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)  # counters of the protocol


JSON_FIELDS = (
    "mode",
    "sites",
    "tuples",
    "information_loss",
    "suppressed",
    "classes",
    "violations_k",
    "violations_l",
    "delay_max",
    "messages",
    "bytes_to_relay",
    "bytes_delivered",
    "dataset_bytes",
    "overhead_percent",
    "open_clusters_max",
    "tuples_per_second",
)
