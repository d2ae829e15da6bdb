"""The figures of a report: each takes the runs and gives one SVG."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scripts.simulation.result import RunResult
from scripts.simulation.svg import HEIGHT, Plot, nice_ticks, power_ticks, tag, text
from scripts.simulation.table import bytes_text

# Sites that get a line of their own; more are shown as a curve over all of them.
_SITES_SHOWN: Final = 24
# How far each mode's mark reaches: shapes, because colours are not for everybody.
_MARK: Final = 4.2
_ROW: Final = 21
_PANEL: Final = 92


def loss_over_time(runs: Sequence[RunResult]) -> str:
    """Loss against records published so far, a line for each run."""
    plot = Plot(
        "loss-over-time",
        "Information loss over time",
        "One line for each mode: mean loss of records by their time of arrival, "
        + "; ".join(f"{run.mode} ends at {_last(run)}" for run in runs),
    )
    most = max((float(run.loss_over_time[:, 0].max(initial=0)) for run in runs), default=0)
    x = plot.x_scale(nice_ticks(0, most or 1))
    y = plot.y_scale(nice_ticks(0, _most_loss(runs)))
    plot.y_axis(y, "information loss (0 to 1)")
    plot.x_axis(x, "records of the whole stream, in order of arrival")
    for run in runs:
        points = [(x(at), y(loss)) for at, loss in run.loss_over_time.tolist()]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        if points:
            plot.add(tag("polyline", points=path, class_=f"line {run.mode}"))
    return plot.svg()


def loss_by_site(runs: Sequence[RunResult]) -> str:
    """Loss of each site's records: a row of marks for each site, or curves over many sites."""
    names = sorted({name for run in runs for name in run.loss_by_site}, key=_natural)
    about = "; ".join(
        f"{run.mode}: {min(run.loss_by_site.values()):.3f} to {max(run.loss_by_site.values()):.3f}"
        for run in runs
        if run.loss_by_site
    )
    if len(names) > _SITES_SHOWN:
        return _loss_of_many_sites(runs, about)
    longest = max(map(len, names), default=0)
    plot = Plot(
        "loss-by-site",
        "Information loss by site",
        about,
        height=max(120, _ROW * len(names) + 62),
        left=min(150.0, 16 + 6.4 * longest),
    )
    x = plot.x_scale(nice_ticks(0, _most_loss(runs)))
    plot.x_axis(x, "information loss (0 to 1)", grid=True)
    for place, name in enumerate(names):
        middle = plot.top + _ROW * (place + 0.5)
        plot.line(plot.left, middle, plot.width - plot.right, middle, class_="grid")
        shown = name if len(name) <= 21 else f"{name[:20]}…"
        plot.add(text(plot.left - 6, middle + 4, shown, text_anchor="end"))
        for run in runs:
            if name in run.loss_by_site:
                loss = run.loss_by_site[name]
                words = f"{name}, {run.mode}: {loss:.4f}"
                plot.add(mark(run.mode, x(loss), middle, words))
    return plot.svg()


def _loss_of_many_sites(runs: Sequence[RunResult], about: str) -> str:
    plot = Plot("loss-by-site", "Information loss by site, sites in order of their loss", about)
    most = max(len(run.loss_by_site) for run in runs)
    x = plot.x_scale(nice_ticks(0, most))
    y = plot.y_scale(nice_ticks(0, _most_loss(runs)))
    plot.y_axis(y, "information loss (0 to 1)")
    plot.x_axis(x, "sites, best to worst")
    for run in runs:
        losses = sorted(run.loss_by_site.values())
        points = " ".join(f"{x(at + 1):.1f},{y(loss):.1f}" for at, loss in enumerate(losses))
        if points:
            plot.add(tag("polyline", points=points, class_=f"line {run.mode}"))
    return plot.svg()


def bytes_by_kind(runs: Sequence[RunResult]) -> str:
    """Bytes to the relay, a bar for each kind of message in each run that sent any."""
    bars: list[tuple[str, str, int]] = []
    for run in runs:
        sent = [(kind, count) for kind, count in run.bytes_by_kind.items() if count]
        # A bar of no length is the heading of those that follow.
        bars += [(run.mode, run.mode, 0)] if sent else []
        bars += [(run.mode, *item) for item in sorted(sent, key=lambda item: -item[1])]
    told = "; ".join(f"{mode} {kind} {bytes_text(count)}" for mode, kind, count in bars if count)
    plot = Plot(
        "bytes-by-kind",
        "Bytes sent to the relay, by kind of message",
        told or "No run sent anything.",
        height=max(90, _ROW * len(bars) + 62),
        left=104,
        right=64,
    )
    most = max((count for _, _, count in bars), default=1)
    x = plot.x_scale(nice_ticks(0, most, 3, whole=True))
    plot.x_axis(x, "bytes sent to the relay", _axis_bytes, grid=True)
    if not bars:
        plot.add(text(plot.width / 2, 36, "nothing was sent", text_anchor="middle"))
    for place, (mode, kind, count) in enumerate(bars):
        top = plot.top + _ROW * place
        if not count:
            plot.add(text(plot.left - 6, top + 15, mode, class_="label end"))
            continue
        words = tag("title", escape(f"{mode}, {kind}: {count:,} bytes"))
        width = max(1.0, x(count) - plot.left)
        plot.add(
            tag(
                "rect",
                words,
                x=plot.left,
                y=top + 3.0,
                width=width,
                height=_ROW - 6.0,
                class_=f"fill {mode}",
            )
        )
        plot.add(text(plot.left - 6, top + 15, kind, text_anchor="end"))
        plot.add(text(plot.left + width + 5, top + 15, bytes_text(count)))
    return plot.svg()


def class_sizes(runs: Sequence[RunResult], k: int) -> str:
    """Histograms of class sizes, one below the other on the same axis, with k marked."""
    sizes = [run.class_sizes[run.class_sizes > 0] for run in runs]
    told = "; ".join(
        f"{run.mode}: {len(each):,} classes, median {np.median(each):.0f}, "
        f"{int((each < k).sum()):,} below k={k}"
        for run, each in zip(runs, sizes, strict=True)
        if len(each)
    )
    height = _PANEL * len(runs) + 58
    plot = Plot(
        "class-sizes", "Sizes of published classes", told or "No classes.", height=height, top=10
    )
    everything = np.concatenate([*sizes, [k]])
    ticks = power_ticks(max(1, everything.min() * 0.9), everything.max() * 1.1)
    x = plot.x_scale(ticks, logarithmic=True)
    edges, border = _edges(ticks[0], ticks[-1], k)
    for place, (run, each) in enumerate(zip(runs, sizes, strict=True)):
        counts = np.histogram(each, edges)[0]
        most = max(int(counts.max(initial=0)), 1)
        base = plot.top + _PANEL * (place + 1) - 4
        plot.line(plot.left, base, plot.width - plot.right, base, class_="axis")
        plot.add(text(plot.left - 6, base, "0", text_anchor="end"))
        plot.add(text(plot.left - 6, base - _PANEL + 30, f"{most:,}", text_anchor="end"))
        plot.add(text(plot.width - plot.right, base - _PANEL + 18, run.mode, class_="label end"))
        for low, high, count in zip(edges, edges[1:], counts.tolist(), strict=False):
            if not count:
                continue
            start, stop = (x(min(max(end, ticks[0]), ticks[-1])) for end in (low, high))
            tall = count / most * (_PANEL - 26)
            words = tag("title", escape(f"{run.mode}, size {low:.0f} to {high:.0f}: {count:,}"))
            plot.add(
                tag(
                    "rect",
                    words,
                    x=start,
                    y=base - tall,
                    width=max(0.8, stop - start - 0.8),
                    height=tall,
                    class_=f"fill {run.mode}",
                )
            )
    floor_y = plot.height - plot.bottom
    plot.line(x(border), plot.top, x(border), floor_y, class_="limit")
    plot.add(text(x(border) + 4, plot.top + 10, f"k = {k:,}", class_="limit"))
    plot.x_axis(x, "persons in the class (logarithmic)")
    plot.add(
        text(
            12,
            floor_y / 2,
            "classes",
            text_anchor="middle",
            transform=f"rotate(-90 12 {floor_y / 2:.0f})",
            class_="label",
        )
    )
    return plot.svg()


def _edges(low: float, high: float, k: int) -> tuple[NDArray[np.float64], float]:
    """Edges of the bars, and the one just below k: no bar holds classes on both sides of it."""
    border = k - 0.5
    edges = np.geomspace(low, high, 41)
    edges = edges * (border / edges[edges <= border].max(initial=edges[0]))
    return np.append(edges[0] * edges[0] / edges[1], edges), border


def violations(run: RunResult, k: int, l: int) -> str:
    """Classes below k or l: persons against values, larger marks for more classes."""
    found = Counter((each.persons, each.values) for each in run.violations)
    total = sum(found.values())
    below = [persons for persons, _ in found.elements()] or [0]
    plot = Plot(
        f"violations-{run.mode}",
        f"Classes of {run.mode} below k or l",
        f"{total:,} classes; the smallest has {min(below):,} of k={k:,} persons"
        if total
        else "There are none.",
        height=HEIGHT,
    )
    most_persons = max([k, *(persons for persons, _ in found)])
    most_values = max([l, *(values for _, values in found)])
    x = plot.x_scale(nice_ticks(0, most_persons * 1.05, whole=True))
    y = plot.y_scale(nice_ticks(0, most_values * 1.1, whole=True))
    plot.y_axis(y, "sensitive values in the class")
    plot.x_axis(x, "persons in the class")
    most = max(found.values(), default=1)
    for (persons, values), count in sorted(found.items(), key=lambda item: -item[1]):
        plural = "class" if count == 1 else "classes"
        words = tag("title", f"{count:,} {plural}: {persons:,} persons, {values:,} values")
        radius = 2.5 + 6 * sqrt(count / most)
        plot.add(
            tag("circle", words, cx=x(persons), cy=y(values), r=radius, class_=f"seen {run.mode}")
        )
    plot.line(x(k), plot.top, x(k), plot.height - plot.bottom, class_="limit")
    plot.add(text(x(k) - 4, plot.top + 10, f"k = {k:,}", class_="limit end"))
    plot.line(plot.left, y(l), plot.width - plot.right, y(l), class_="limit")
    plot.add(text(plot.left + 5, y(l) - 5, f"l = {l:,}", class_="limit"))
    if not total:
        plot.add(text(plot.width / 2, plot.height / 2, "none", text_anchor="middle"))
    return plot.svg()


def mark(mode: str, x: float, y: float, words: str = "") -> str:
    """The mode's own shape at a place, with words for whoever points at it."""
    said, r, class_ = tag("title", escape(words)) if words else "", _MARK, f"fill {mode}"
    match mode:
        case "none":
            return tag("rect", said, x=x - r, y=y - r, width=2 * r, height=2 * r, class_=class_)
        case "paper":
            corners = [(0, -r - 1), (r + 1, r), (-r - 1, r)]
            return tag("polygon", said, points=_points(x, y, corners), class_=class_)
        case "centralised":
            corners = [(0, -r - 1), (r + 1, 0), (0, r + 1), (-r - 1, 0)]
            return tag("polygon", said, points=_points(x, y, corners), class_=class_)
    return tag("circle", said, cx=x, cy=y, r=r, class_=class_)


def _points(x: float, y: float, corners: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)


def _natural(name: str) -> list[tuple[int, str]]:
    """Order names as people do: site-2 before site-10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


def _axis_bytes(count: float) -> str:
    return bytes_text(round(count)).replace(".0 ", " ")


def _last(run: RunResult) -> str:
    over_time = run.loss_over_time
    return f"{over_time[-1, 1]:.3f}" if len(over_time) else "nothing"


def _most_loss(runs: Sequence[RunResult]) -> float:
    losses = [float(run.loss_over_time[:, 1].max(initial=0)) for run in runs]
    losses += [loss for run in runs for loss in run.loss_by_site.values()]
    return max([*losses, 0.1])
