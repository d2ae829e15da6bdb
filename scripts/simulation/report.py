"""The report of a simulation: one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Final

from scripts.simulation import plots
from scripts.simulation.result import RunResult
from scripts.simulation.svg import tag
from scripts.simulation.table import REMARKS, Run, bytes_text, loss_text, share_text

_TEMPLATE: Final = Path(__file__).with_name("report.html")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the page says beside the runs."""

    heading: str
    command: str
    meaning: tuple[str, ...]
    k: int
    l: int
    parameters: Mapping[str, str]


# Every figure of a run, by name and unit, and how it is written.
_ROWS: Final[tuple[tuple[str, Callable[[Run], str]], ...]] = (
    ("sites", lambda run: f"{run['sites']:,}"),
    ("records", lambda run: f"{run['tuples']:,}"),
    ("information loss", lambda run: loss_text(run["information_loss"])),
    (
        "suppressed records",
        lambda run: f"{run['suppressed']:,} ({share_text(run['suppressed'], run['tuples'])})",
    ),
    ("classes", lambda run: f"{run['classes']:,}"),
    ("classes below k or l", lambda run: f"{run['violations']:,}"),
    ("classes below k persons", lambda run: f"{run['violations_k']:,}"),
    ("classes below l values", lambda run: f"{run['violations_l']:,}"),
    ("longest delay, records of a site", lambda run: f"{run['delay_max']:,}"),
    ("records lost with their site", lambda run: f"{run['lost']:,}"),
    ("messages to the relay", lambda run: f"{run['messages']:,}"),
    ("sent to the relay", lambda run: bytes_text(run["bytes_to_relay"])),
    ("delivered by the relay", lambda run: bytes_text(run["bytes_delivered"])),
    ("input rows as CSV", lambda run: bytes_text(run["dataset_bytes"])),
    ("sent, share of the input", lambda run: f"{run['overhead_percent']:.3f} %"),
    ("most open clusters", lambda run: f"{run['open_clusters_max']:,}"),
    ("records per second", lambda run: f"{run['tuples_per_second']:,.0f}"),
)


def page(runs: Sequence[RunResult], numbers: Sequence[Run], facts: Facts) -> str:
    """The whole page; `numbers` are the runs as their JSON says them."""
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        heading=escape(facts.heading),
        warning=_warning(numbers),
        meaning="\n".join(f"<p>{escape(sentence)}</p>" for sentence in facts.meaning),
        key="\n".join(_key(run.mode) for run in runs),
        table=_table(numbers),
        figures="\n".join(_figures(runs, facts)),
        command=escape(facts.command),
        parameters="\n".join(
            f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
            for name, value in facts.parameters.items()
        ),
    )


def _warning(numbers: Sequence[Run]) -> str:
    count = next((run["violations"] for run in numbers if run["mode"] == "paper"), None)
    if count is None:
        return ""
    return (
        '<p class="warning" role="note"><strong>paper is for comparison only.</strong> It is a '
        "reproduction of dCASTLE as published and does not keep k in the merged output: here it "
        f"published {count:,} {'class' if count == 1 else 'classes'} below k or l.</p>"
    )


def _key(mode: str) -> str:
    line = tag("line", x1=0, y1=7, x2=34, y2=7, class_=f"line {mode}")
    drawn = tag("svg", line + plots.mark(mode, 44, 7), viewBox="0 0 52 14", aria_hidden="true")
    return f"<li>{drawn} <b>{mode}</b> <span>{escape(REMARKS[mode])}</span></li>"


def _table(numbers: Sequence[Run]) -> str:
    head = "".join(f'<th scope="col">{run["mode"]}</th>' for run in numbers)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{escape(cell(run))}</td>" for run in numbers)
        + "</tr>"
        for name, cell in _ROWS
    )
    return (
        f'<table>\n<thead><tr><th scope="col">figure</th>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table>"
    )


def _figures(runs: Sequence[RunResult], facts: Facts) -> Iterator[str]:
    yield _figure(
        "Information loss over time",
        "mean loss of records, by the time of their arrival",
        plots.loss_over_time(runs),
    )
    yield _figure(
        "Information loss by site", "mean loss of each site's records", plots.loss_by_site(runs)
    )
    yield _figure(
        "Bytes by kind of message",
        "sent by all sites to the relay; alone or in one place nothing is sent",
        plots.bytes_by_kind(runs),
    )
    yield _figure(
        "Sizes of classes",
        "distinct persons of each published class; left of the line is a breach",
        plots.class_sizes(runs, facts.k),
    )
    for run in runs:
        if run.mode == "paper" or run.violations:
            yield _figure(
                f"Classes of {run.mode} below k or l",
                "a larger mark stands for more classes",
                plots.violations(run, facts.k, facts.l),
            )


def _figure(title: str, about: str, svg: str) -> str:
    caption = f"<figcaption><strong>{escape(title)}</strong><span>{escape(about)}</span>"
    return f"<figure>{caption}</figcaption>\n{svg}</figure>"
