"""What goes into the machine and what comes out of it.

Events are facts in the past tense, effects are orders in the imperative. Time is part of the
events: the machine has no clock of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.kernels.layout import SUPPRESSED

__all__ = [
    "SUPPRESSED",
    "Classes",
    "Effect",
    "Event",
    "Publish",
    "Records",
    "RecordsArrived",
    "StreamEnded",
    "Ticked",
    "joined",
]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Records:
    """Accepted records in codes, one row each (see core.encode)."""

    code: NDArray[np.int32]  # [n, D] grid coordinates of the numeric, leaves of the categorical QI
    raw: NDArray[np.float64]  # [n, N] numeric values as they came
    person: NDArray[np.int64]  # [n]
    value: NDArray[np.int64]  # [n] the sensitive value
    general: NDArray[np.bool_]  # [n] publish at once with the most general values

    def __len__(self) -> int:
        return len(self.person)


@dataclass(frozen=True, slots=True, eq=False)
class RecordsArrived:
    """Records came in, in this order; their positions in the stream follow the last ones'."""

    records: Records
    now_ns: int = 0


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed and nothing came."""

    now_ns: int


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """No record will follow."""


Event = RecordsArrived | Ticked | StreamEnded


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Classes:
    """Published classes: an id and a generalisation each."""

    class_id: NDArray[np.int64]  # [c]
    low: NDArray[np.float64]  # [c, N] both ends of the numeric QI, as they came
    high: NDArray[np.float64]
    node: NDArray[np.int32]  # [c, C] node of the categorical QI

    def __len__(self) -> int:
        return len(self.class_id)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Publish:
    """Publish these records, in this order, each with the class in its row of `classes`.

    A row of SUPPRESSED means the most general values. The table has every class that is needed
    here, also those that were published before and are reused.
    """

    position: NDArray[np.int64]  # [n]
    row: NDArray[np.int64]  # [n]
    classes: Classes

    def __len__(self) -> int:
        return len(self.position)


Effect = Publish


def joined(effects: list[Publish]) -> Publish:
    """Several effects as one, in order; a class that is in several tables stays in each."""
    sizes = [len(effect.classes) for effect in effects]
    starts = np.cumsum([0, *sizes[:-1]])
    return Publish(
        position=np.concatenate([effect.position for effect in effects]),
        row=np.concatenate(
            [
                np.where(effect.row == SUPPRESSED, SUPPRESSED, effect.row + start)
                for effect, start in zip(effects, starts.tolist(), strict=True)
            ]
        ),
        classes=Classes(
            class_id=np.concatenate([effect.classes.class_id for effect in effects]),
            low=np.concatenate([effect.classes.low for effect in effects]),
            high=np.concatenate([effect.classes.high for effect in effects]),
            node=np.concatenate([effect.classes.node for effect in effects]),
        ),
    )
