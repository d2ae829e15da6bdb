"""Runs side by side, in text: one table, and what its numbers mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scripts.simulation.result import JSON_FIELDS, RunResult

# A run as its JSON says it.
Run = Mapping[str, Any]

REMARKS: Final = {
    "centralised": "everything in one place: the yardstick",
    "none": "every site alone",
    "paper": "dCASTLE as published",
    "strict": "what you would run",
}
_GAP: Final = "  "


def as_json(run: RunResult, *, lost: int) -> dict[str, Any]:
    """The numbers of a run: those promised, the classes below k or l, the records that were lost.

    A class may be short of persons and of values, so the two counts do not add up.
    """
    promised = {name: getattr(run, name) for name in JSON_FIELDS}
    short = max(len(run.violations), run.violations_k, run.violations_l)
    return promised | {"violations": short, "lost": lost}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table: its head, and a run's cell."""

    head: str
    cell: Callable[[Run], str]


def loss_text(loss: float | None) -> str:
    """A loss as it is shown everywhere."""
    return "-" if loss is None else f"{loss:.4f}"


def share_text(part: int, whole: int) -> str:
    """A share in percent; a few of many do not become none."""
    percent = 100 * part / whole if whole else 0.0
    if 0 < percent < 0.005:
        return "<0.01 %"
    return f"{percent:.2f} %" if 0 < percent < 0.1 else f"{percent:.1f} %"


def bytes_text(count: int) -> str:
    """A number of bytes for people."""
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1_000 or unit == "GB":
            break
        size /= 1_000
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def _sent(run: Run, text: Callable[[Run], str]) -> str:
    """Centralised, there is nobody to send anything to."""
    return "-" if run["mode"] == "centralised" else text(run)


def _percent_sent(run: Run) -> str:
    return f"{run['overhead_percent']:.2f} %"


LOSS: Final = Column("loss", lambda run: loss_text(run["information_loss"]))
SUPPRESSED: Final = Column("suppressed", lambda run: share_text(run["suppressed"], run["tuples"]))
CLASSES: Final = Column("classes", lambda run: f"{run['classes']:,}")
BELOW: Final = Column("below k or l", lambda run: f"{run['violations']:,}")
MESSAGES: Final = Column("messages", lambda run: _sent(run, lambda run: f"{run['messages']:,}"))
BYTES: Final = Column(
    "bytes sent", lambda run: _sent(run, lambda run: bytes_text(run["bytes_to_relay"]))
)
OVERHEAD: Final = Column("overhead", lambda run: _sent(run, _percent_sent))
SHARE_SENT: Final = Column("bytes sent", OVERHEAD.cell)
DELAY: Final = Column("max delay", lambda run: f"{run['delay_max']:,}")
SPEED: Final = Column("tuples/s", lambda run: f"{run['tuples_per_second']:,.0f}")

ALL: Final = (LOSS, SUPPRESSED, CLASSES, BELOW, MESSAGES, BYTES, OVERHEAD, DELAY, SPEED)
BRIEF: Final = (LOSS, SUPPRESSED, CLASSES, BELOW, SHARE_SENT)


def table(runs: Sequence[Run], columns: Sequence[Column] = ALL, width: int = 1_000) -> list[str]:
    """The lines of the table; remarks go beside the rows, or below them when it gets too wide."""
    cells = [["", *(column.head for column in columns)]]
    cells += [[run["mode"], *(column.cell(run) for column in columns)] for run in runs]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        _GAP.join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in cells
    ]
    remarks = ["", *(REMARKS[run["mode"]] for run in runs)]
    beside = [f"{line}{_GAP}{remark}".rstrip() for line, remark in zip(lines, remarks, strict=True)]
    if max(map(len, beside)) <= width:
        return beside
    legend = [f"{run['mode'].ljust(widths[0])}{_GAP}{REMARKS[run['mode']]}" for run in runs]
    return [*lines, "", *legend]


def notes(runs: Sequence[Run]) -> Iterator[str]:
    """What must be said under the table."""
    for run in runs:
        if run["mode"] == "paper":
            short = _classes(run["violations"])
            yield f"paper: a reproduction; it published {short} below k or l"
        if run["lost"]:
            yield f"{run['mode']}: {run['lost']:,} records died with their site, without outcome"


def meaning(runs: Sequence[Run], k: int, l: int) -> Iterator[str]:
    """What the numbers mean, in one or two sentences."""
    by_mode = {run["mode"]: run for run in runs}
    if len(by_mode) > 1:
        yield _won_back(by_mode)
    else:
        yield "Loss 0 is as the records came, 1 is nothing left; a suppressed record counts 1."
    if (strict := by_mode.get("strict")) is not None:
        yield _kept(strict, k, l)


def won_back(by_mode: Mapping[str, Run]) -> float | None:
    """The share of the loss between none and centralised that strict does not have.

    None when there is no such difference.
    """
    alone, strict, together = (
        by_mode[mode]["information_loss"] for mode in ("none", "strict", "centralised")
    )
    if alone is None or strict is None or together is None or alone <= together:
        return None
    return float((alone - strict) / (alone - together))


def _won_back(by_mode: Mapping[str, Run]) -> str:
    alone, strict, together = (
        loss_text(by_mode[mode]["information_loss"]) for mode in ("none", "strict", "centralised")
    )
    share = won_back(by_mode)
    if share is None:
        return (
            f"Apart ({alone}) the sites lose no more than in one place ({together}): there is "
            f"nothing to win back here. strict loses {strict}."
        )
    apart = f"Alone the sites lose {alone}, in one place they would lose {together}"
    if share < 0:
        return (
            f"{apart}. strict loses {strict}, more than the sites alone: here the exchange "
            f"did not help ({share:.0%} of the difference)."
        )
    if share > 1:
        return (
            f"{apart}. strict loses {strict}: it wins back all of the difference and more "
            f"({share:.0%})."
        )
    return f"{apart}. strict loses {strict}: it wins back {share:.0%} of the difference."


def _kept(strict: Run, k: int, l: int) -> str:
    if strict["violations"]:
        return (
            f"BREACH: strict published {_classes(strict['violations'])} below k={k} or l={l}. "
            "This must not happen: please report it."
        )
    cost = f"the exchange sent {strict['overhead_percent']:.2f} % of the data's bytes"
    values = f" and {l} sensitive values" if l > 1 else ""
    return f"Every class of strict holds at least {k} persons{values}; {cost}."


def _classes(count: int) -> str:
    return "1 class" if count == 1 else f"{count:,} classes"
