"""What a run did, in numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Summary:
    """Counted while a stream is anonymised."""

    rows: int = 0
    accepted: int = 0
    published: int = 0
    suppressed: int = 0
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter)
    suppressed_by_policy: Counter[tuple[str, str]] = field(default_factory=Counter)
    clamped: Counter[str] = field(default_factory=Counter)
    foreign: dict[str, dict[str, None]] = field(default_factory=dict)
    dropped: dict[str, None] = field(default_factory=dict)
    loss_total: float = 0.0
    delay_max: int = 0
    statistics: dict[str, int] = field(default_factory=dict)

    @property
    def information_loss(self) -> float | None:
        """Mean loss of the accepted records; a suppressed one counts 1."""
        decided = self.published + self.suppressed
        return self.loss_total / decided if decided else None

    def as_dict(self) -> dict[str, Any]:
        """The numbers under the names the reports use."""
        return {
            "rows": self.rows,
            "published": self.published,
            "suppressed": self.suppressed,
            "rejected": sum(self.rejected.values()),
            "classes": self.statistics.get("classes", 0),
            "information_loss": self.information_loss,
            "delay_max": self.delay_max,
            "rejected_by": _listed(self.rejected),
            "suppressed_by_policy": _listed(self.suppressed_by_policy),
            "clamped": dict(self.clamped),
            "not_in_hierarchy": {name: list(values) for name, values in self.foreign.items()},
            "dropped_columns": list(self.dropped),
            "statistics": self.statistics,
        }


def _listed(counts: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {"attribute": attribute, "reason": reason, "rows": rows}
        for (attribute, reason), rows in counts.most_common()
    ]
