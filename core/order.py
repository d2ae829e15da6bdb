"""Publishing in the order of arrival (CASTLE, Theorem 3).

An outcome waits until every earlier record has one. The delay still holds: the oldest record is
decided in time, and nothing waits for a younger one. Who knows the order in which people came can
then tell whose record is whose line; see docs/limitations.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.events import SUPPRESSED, Classes, Publish


class InputOrder:
    """Holds outcomes back until they are next in line."""

    def __init__(self) -> None:
        self._next = 0
        self._position: NDArray[np.int64] = np.zeros(0, np.int64)
        self._class_id: NDArray[np.int64] = np.zeros(0, np.int64)
        self._classes: Classes | None = None

    def step(self, effects: list[Publish]) -> list[Publish]:
        """Take in outcomes as they were decided; returns those whose turn has come."""
        if not effects:
            return []
        self._take(effects)
        due = _run_length(self._position, self._next)
        if due == 0:
            return []
        released = self._publish(due)
        self._next += due
        self._position, self._class_id = self._position[due:], self._class_id[due:]
        self._classes = _only(self._require(), self._class_id)
        return [released]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Everything held back, for a snapshot."""
        held: dict[str, NDArray[np.generic]] = {
            "next": np.array([self._next], np.int64),
            "position": self._position,
            "class_id": self._class_id,
        }
        if self._classes is not None:
            held |= {
                "classes.class_id": self._classes.class_id,
                "classes.low": self._classes.low,
                "classes.high": self._classes.high,
                "classes.node": self._classes.node,
            }
        return held

    def load(self, held: dict[str, NDArray[np.generic]]) -> None:
        """Continue from the arrays of a snapshot."""
        self._next = int(held["next"][0])
        self._position = held["position"].astype(np.int64)
        self._class_id = held["class_id"].astype(np.int64)
        if "classes.class_id" in held:
            self._classes = Classes(
                class_id=held["classes.class_id"].astype(np.int64),
                low=held["classes.low"].astype(np.float64),
                high=held["classes.high"].astype(np.float64),
                node=held["classes.node"].astype(np.int32),
            )

    def _require(self) -> Classes:
        assert self._classes is not None
        return self._classes

    def _take(self, effects: list[Publish]) -> None:
        """Add outcomes to what is held back, sorted by position."""
        tables = [self._classes] if self._classes is not None else []
        tables += [effect.classes for effect in effects]
        positions, ids = [self._position], [self._class_id]
        for effect in effects:
            positions.append(effect.position)
            suppressed = effect.row == SUPPRESSED
            padded = np.append(effect.classes.class_id, SUPPRESSED)
            ids.append(np.where(suppressed, SUPPRESSED, padded[effect.row]))
        position, class_id = np.concatenate(positions), np.concatenate(ids)
        order = np.argsort(position, kind="stable")
        self._position, self._class_id = position[order], class_id[order]
        self._classes = _only(_union(tables), self._class_id)

    def _publish(self, due: int) -> Publish:
        class_id = self._class_id[:due]
        classes = _only(self._require(), class_id)
        row = np.searchsorted(classes.class_id, class_id).astype(np.int64)
        return Publish(
            position=self._position[:due],
            row=np.where(class_id == SUPPRESSED, SUPPRESSED, row),
            classes=classes,
        )


def _run_length(position: NDArray[np.int64], first: int) -> int:
    """How many of the sorted positions follow each other without a gap from `first` on."""
    gaps = np.flatnonzero(position != first + np.arange(len(position)))
    return int(gaps[0]) if len(gaps) else len(position)


def _union(tables: list[Classes]) -> Classes:
    """One table, sorted by class id, each class once."""
    class_id, first = np.unique(
        np.concatenate([table.class_id for table in tables]), return_index=True
    )
    return Classes(
        class_id=class_id,
        low=np.concatenate([table.low for table in tables])[first],
        high=np.concatenate([table.high for table in tables])[first],
        node=np.concatenate([table.node for table in tables])[first],
    )


def _only(classes: Classes, needed: NDArray[np.int64]) -> Classes:
    """The rows of a sorted table that are needed."""
    keep = np.isin(classes.class_id, needed)
    return Classes(
        class_id=classes.class_id[keep],
        low=classes.low[keep],
        high=classes.high[keep],
        node=classes.node[keep],
    )
