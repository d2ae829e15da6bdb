"""What an audit finds: breaches, and the figures it hands back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from numpy.typing import NDArray

T = TypeVar("T")

# A bound per kind and not on all together: a thousand short classes must not hide one leak.
LISTED_PER_KIND_MAX: Final = 10

Kind = Literal[
    "k",  # fewer than k persons (or rows) in a class
    "l",  # fewer than l sensitive values in a class
    "leaked-column",  # the person or an identifier is published
    "unexpected-column",  # a column is published that the schema does not name
    "unreadable",  # a value that is no interval, no node, outside the domain, no class id
    "mixed-class",  # one class, two generalisations
    "not-suppressed",  # no class, yet something is shown
    "trace-missing",  # a row of the original without a line in the trace
    "trace-duplicate",  # a row of the original with several
    "trace-unknown",  # a line of the trace for a row that the original does not have
    "trace-outcome",  # a line of the trace whose outcome is unknown or contradicts its class
    "count",  # the publication has another number of rows than the trace or the original allow
    "outside",  # a person's value is not covered by what their class shows
    "values",  # the published values are not the original's
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One promise that the publication does not keep. Raw values are never part of the message."""

    kind: Kind
    message: str
    class_id: int | None = None
    attribute: str | None = None


@dataclass(slots=True)
class Breaches:
    """Counts every breach and lists the first few of each kind."""

    counts: Counter[str] = field(default_factory=Counter)
    listed: list[Breach] = field(default_factory=list)

    def add(
        self,
        kind: Kind,
        culprits: Sequence[T] | NDArray[Any],
        message: Callable[[T], str],
        *,
        class_id: Callable[[T], int | None] = lambda _: None,
        attribute: str | None = None,
    ) -> None:
        """Note one breach for each culprit, and say more of as many as there is room for."""
        room = LISTED_PER_KIND_MAX - self.counts[kind]
        if len(culprits):
            self.counts[kind] += len(culprits)
        self.listed.extend(
            Breach(kind=kind, message=message(one), class_id=class_id(one), attribute=attribute)
            for one in culprits[: max(room, 0)]
        )


def in_rows(count: int) -> str:
    """Say a number of rows."""
    return "1 row" if count == 1 else f"{count:,} rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallClass:
    """One of the classes that come closest to a breach; `values` are distinct sensitive values."""

    class_id: int
    persons: int | None
    rows: int
    values: int | None
    shown: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The outcome of an audit; it passed when there are no breaches.

    k       fewest persons in a class, or rows where persons cannot be told (`k_counts` says which)
    l       fewest distinct sensitive values in a class; a missing value is no value
    t       largest distance of a class's sensitive values from those of all rows, the suppressed
            included (t-closeness, Li et al. 2007). Earth mover's distance: with equal distances
            for a categorical attribute (total variation), with ordered ones for a numeric one
    *_by_values   the same over rows that show equal quasi-identifiers, whatever their class
    discernibility            sum of the squared class sizes; a suppressed row costs as many as
                              there are rows (Bayardo and Agrawal 2005)
    information_loss          generalised loss metric: (hi - lo) / (HI - LO) of an interval,
                              (leaves - 1) / (all leaves - 1) of a node, mean over the
                              quasi-identifiers and all rows, where a suppressed row counts 1
    information_loss_published  the same over the rows in classes
    loss_by_attribute         the same over all rows for each quasi-identifier alone

    The delay cannot be audited: nothing here says when a row was published.
    """

    passed: bool
    k: int | None
    l: int | None
    t: float | None
    k_required: int
    l_required: int
    k_counts: Literal["persons", "rows"]
    k_by_values: int | None
    l_by_values: int | None
    classes: int
    rows: int
    suppressed: int
    suppressed_share: float | None
    rejected: int | None
    discernibility: int
    average_class_size: float | None
    average_class_size_over_k: float | None
    information_loss: float | None
    information_loss_published: float | None
    loss_by_attribute: dict[str, float | None]
    breach_count: int
    breach_count_by_kind: dict[str, int]
    breaches: list[Breach]
    worst: list[SmallClass]
    notes: list[str]
