"""A little SVG: a frame with axes, ticks and marks, drawn in Python, styled by the page.

Colours and fonts are classes that the page's style sheet gives a meaning, in light and in dark. A
figure is drawn for the width of a phone and scales up from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10
from typing import Final

WIDTH: Final = 440
HEIGHT: Final = 270
_CHARACTER: Final = 6.2  # width of one at the size of a tick's label, about
# Ticks at these multiples of a power of ten.
_STEPS: Final = (1, 2, 2.5, 5, 10)


def tag(name: str, content: str = "", /, **attributes: object) -> str:
    """An element; `class_` is written `class`, other underscores become hyphens."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
    )
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(x: float, y: float, words: str, **attributes: object) -> str:
    """Words at a place."""
    return tag("text", escape(words), x=x, y=y, **attributes)


def nice_ticks(low: float, high: float, about: int = 5, *, whole: bool = False) -> list[float]:
    """Round numbers that cover low to high, about so many; only whole ones if they are counts."""
    if high <= low:
        high = low + 1
    raw = (high - low) / about
    if whole:
        raw = max(raw, 1.0) if raw <= 2 else max(raw, 5.0) if raw <= 5 else raw
    power = 10.0 ** floor(log10(raw))
    step = power * next(each for each in _STEPS if each * power >= raw * (1 - 1e-9))
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    # A product of floats would show as 0.30000000000000004.
    return [round(number * step, 12) for number in range(first, last + 1)]


def power_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, 20, ... from the last one not above low to the first not below high."""
    ticks = [
        float(unit * 10**power)
        for power in range(floor(log10(low)), ceil(log10(high)) + 2)
        for unit in (1, 2, 5)
    ]
    start = max(place for place, tick in enumerate(ticks) if tick <= low)
    stop = min(place for place, tick in enumerate(ticks) if tick >= high and place > start)
    return ticks[start : stop + 1]


def short(number: float) -> str:
    """A number for an axis: 1,500 and 2M, 0.25."""
    if number >= 1_000_000 and number % 100_000 == 0:
        return f"{number / 1_000_000:g}M"
    if number >= 10_000 and number % 100 == 0:
        return f"{number / 1_000:g}k"
    return f"{number:,.0f}" if number == int(number) else f"{number:g}"


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places along an axis."""

    ticks: Sequence[float]
    start: float
    stop: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """Where the value is."""
        at, low, high = (
            log10(each) if self.logarithmic else each
            for each in (value, self.ticks[0], self.ticks[-1])
        )
        return self.start + (at - low) / (high - low) * (self.stop - self.start)


@dataclass(slots=True)
class Plot:
    """A figure under construction: give it scales, draw marks, take the SVG.

    `title` and `about` are what a screen reader says.
    """

    name: str
    title: str
    about: str
    width: int = WIDTH
    height: int = HEIGHT
    left: float = 52
    right: float = 18
    top: float = 12
    bottom: float = 46
    parts: list[str] = field(default_factory=list)

    def x_scale(self, ticks: Sequence[float], *, logarithmic: bool = False) -> Scale:
        """A scale from left to right."""
        return Scale(ticks, self.left, self.width - self.right, logarithmic)

    def y_scale(self, ticks: Sequence[float]) -> Scale:
        """A scale from the bottom up."""
        return Scale(ticks, self.height - self.bottom, self.top)

    def x_axis(
        self, scale: Scale, label: str, shown: Callable[[float], str] = short, *, grid: bool = False
    ) -> None:
        """Ticks, their numbers and the label below; numbers that would touch are left out."""
        floor_y = self.height - self.bottom
        self.line(self.left, floor_y, self.width - self.right, floor_y, class_="axis")
        free = 0.0
        for tick in scale.ticks:
            x, words = scale(tick), shown(tick)
            if grid:
                self.line(x, self.top, x, floor_y, class_="grid")
            self.line(x, floor_y, x, floor_y + 4, class_="axis")
            half = len(words) * _CHARACTER / 2
            if x - half >= free:
                self.add(text(x, floor_y + 17, words, text_anchor="middle"))
                free = x + half + 4
        middle = (self.left + self.width - self.right) / 2
        self.add(text(middle, self.height - 8, label, text_anchor="middle", class_="label"))

    def y_axis(self, scale: Scale, label: str, shown: Callable[[float], str] = short) -> None:
        """Grid lines, their numbers and the label, turned, on the left."""
        for tick in scale.ticks:
            y = scale(tick)
            self.line(self.left, y, self.width - self.right, y, class_="grid")
            self.add(text(self.left - 6, y + 4, shown(tick), text_anchor="end"))
        middle = (self.top + self.height - self.bottom) / 2
        turn = f"rotate(-90 12 {middle:.0f})"
        self.add(text(12, middle, label, text_anchor="middle", transform=turn, class_="label"))

    def line(self, x1: float, y1: float, x2: float, y2: float, **attributes: object) -> None:
        """A straight line."""
        self.add(tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), **attributes))

    def add(self, part: str) -> None:
        """Any element."""
        self.parts.append(part)

    def svg(self) -> str:
        """The figure, with its title and description."""
        named = f"{self.name}-title {self.name}-about"
        head = tag("title", escape(self.title), id=f"{self.name}-title")
        head += tag("desc", escape(self.about), id=f"{self.name}-about")
        return tag(
            "svg",
            head + "".join(self.parts),
            viewBox=f"0 0 {self.width} {self.height}",
            role="img",
            aria_labelledby=named,
        )
