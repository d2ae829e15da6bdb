"""The report: one page that needs nothing but itself, with every figure on it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from core.events import Classes
from scripts.simulation import plots
from scripts.simulation.report import Facts, page
from scripts.simulation.result import JSON_FIELDS, Merged, Mode, RunResult, Violation
from scripts.simulation.svg import nice_ticks, power_ticks, short
from scripts.simulation.table import as_json

MODES: tuple[Mode, ...] = ("centralised", "none", "paper", "strict")
VOID = {"meta", "line", "rect", "circle", "polygon", "polyline"}


def run(mode: Mode, sites: int = 8, **other: Any) -> RunResult:
    rng = np.random.default_rng(len(mode))
    sends = mode in ("paper", "strict")
    kinds = {"share": 4_000, "vote": 1_234} if sends else {}
    short_classes = (
        Violation(class_id=7, persons=3, values=9),
        Violation(class_id=8, persons=30, values=1),
    )
    numbers: dict[str, Any] = {
        "mode": mode,
        "sites": sites,
        "tuples": 1_000,
        "information_loss": 0.5,
        "suppressed": 3,
        "classes": 50,
        "violations_k": 1 if mode == "paper" else 0,
        "violations_l": 1 if mode == "paper" else 0,
        "delay_max": 99,
        "messages": 11,
        "bytes_to_relay": sum(kinds.values()),
        "bytes_delivered": 7 * sum(kinds.values()),
        "dataset_bytes": 100_000,
        "overhead_percent": sum(kinds.values()) / 1_000,
        "open_clusters_max": 13,
        "tuples_per_second": 98_765.4,
        "merged": Merged(
            record=np.arange(1_000),
            row=np.zeros(1_000, np.int64),
            classes=Classes(
                class_id=np.zeros(1, np.int64),
                low=np.zeros((1, 0)),
                high=np.zeros((1, 0)),
                node=np.zeros((1, 0), np.int32),
            ),
        ),
        "violations": short_classes if mode == "paper" else (),
        "class_sizes": rng.integers(20, 90, 50),
        "loss_over_time": np.column_stack([np.arange(0, 1_000, 10), rng.random(100)]),
        "loss_by_site": {f"site-{n}": float(rng.random()) for n in range(1, sites + 1)},
        "bytes_by_kind": kinds,
        "messages_by_kind": dict.fromkeys(kinds, 5),
    }
    return RunResult(**(numbers | other))


def written(runs: list[RunResult], **other: Any) -> str:
    facts: dict[str, Any] = {
        "heading": "8 sites & <more>",
        "command": "dcastle simulate 'a b.csv' --k 20",
        "meaning": ("It means <this>.",),
        "k": 20,
        "l": 3,
        "parameters": {"seed": "1", "site": "<b>&"},
    }
    numbers = [as_json(each, lost=0) for each in runs]
    return page(runs, numbers, Facts(**(facts | other)))


class Reader(HTMLParser):
    """Collects tags and attributes, and checks that elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def drawn(svg: str) -> ElementTree.Element:
    """A figure, which must be well-formed and draw nothing at nowhere."""
    assert "nan" not in svg
    assert "inf" not in re.sub("information", "", svg)
    return ElementTree.fromstring(svg)  # noqa: S314


def test_the_page_refers_to_nothing_outside_of_it() -> None:
    text = written([run(mode) for mode in MODES])
    tags = read(text).tags
    assert not {"script", "link", "img", "iframe", "object", "image", "use", "a"} & {
        t for t, _ in tags
    }
    for _, attributes in tags:
        assert not {"src", "href", "xlink:href", "srcset", "style"} & set(attributes)
    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text


def test_every_figure_of_every_run_is_in_the_table() -> None:
    runs = [run(mode) for mode in MODES]
    words = read(written(runs)).words
    for mode in MODES:
        assert mode in words
    figures = ("1,000", "0.5000", "3 (0.3 %)", "50", "99", "11", "5.2 kB", "36.6 kB", "100.0 kB")
    for figure in (*figures, "5.234 %", "13", "98,765"):
        assert figure in words
    labels = sum(
        tag == "th" and dict(attrs).get("scope") == "row" for tag, attrs in read(written(runs)).tags
    )
    # Every field but the mode, which is the head, and both counts that we add.
    assert labels == len(JSON_FIELDS) - 1 + 2


def test_there_are_five_plots_each_with_a_title_and_a_description() -> None:
    text = written([run(mode) for mode in MODES])
    figures = re.findall(r"<figure>.*?</figure>", text, re.DOTALL)
    assert len(figures) == 5
    for figure in figures:
        svg = drawn(figure[figure.index("<svg") : figure.index("</figure>")])
        ids = {child.get("id"): child.text for child in svg if child.tag in ("title", "desc")}
        named = (svg.get("aria-labelledby") or "").split()
        assert list(ids) == named
        assert all(ids.values())
    named = re.findall(r'id="([^"]+)"', text)
    assert len(named) == len(set(named))


def test_the_page_warns_of_paper_and_only_then() -> None:
    assert "published 2 classes below k or l" in written([run("paper")])
    assert "paper is for comparison only" not in written([run("strict")])


def test_what_the_user_wrote_is_shown_and_not_executed() -> None:
    text = written([run("strict", loss_by_site={"<script>alert(1)</script>": 0.5})])
    assert "<script>" not in text
    assert "8 sites &amp; &lt;more&gt;" in text
    assert "It means &lt;this&gt;." in text
    assert "&lt;b&gt;&amp;" in text
    assert "dcastle simulate &#x27;a b.csv&#x27; --k 20" in text


def test_light_and_dark_name_the_same_colours() -> None:
    light, dark = re.findall(r":root \{(.*?)\}", written([run("none")]), re.DOTALL)
    assert set(re.findall(r"--[\w-]+", light)) == set(re.findall(r"--[\w-]+", dark))


@pytest.mark.parametrize("mode", MODES)
def test_a_run_without_anything_can_be_drawn(mode: Mode) -> None:
    empty = run(
        mode,
        violations=(),
        class_sizes=np.zeros(0, np.int64),
        loss_over_time=np.zeros((0, 2)),
        loss_by_site={},
        bytes_by_kind={},
        information_loss=None,
        tuples=0,
    )
    assert read(written([empty])).words
    for svg in re.findall(r"<svg.*?</svg>", written([empty]), re.DOTALL):
        drawn(svg)


def test_many_sites_become_a_curve() -> None:
    few, many = ([run(mode, sites=sites) for mode in MODES] for sites in (24, 1_024))
    assert len(drawn(plots.loss_by_site(few)).findall("polyline")) == 0
    assert len(drawn(plots.loss_by_site(many)).findall("polyline")) == 4


def test_sites_are_listed_as_people_count() -> None:
    svg = plots.loss_by_site([run("none", sites=12)])
    assert svg.index(">site-2<") < svg.index(">site-10<")


def test_k_stands_between_the_bars() -> None:
    sizes = np.array([19, 19, 20, 20, 20])
    svg = drawn(plots.class_sizes([run("strict", class_sizes=sizes)], 20))
    (limit,) = [each for each in svg.findall("line") if each.get("class") == "limit"]
    border = float(limit.get("x1", "nan"))
    bars = {
        (each.findtext("title") or "").rpartition(": ")[2]: each for each in svg.findall("rect")
    }
    below, above = bars["2"], bars["3"]
    assert float(below.get("x", "nan")) + float(below.get("width", "nan")) <= border + 0.1
    assert float(above.get("x", "nan")) >= border - 0.1


@pytest.mark.parametrize("k", [2, 3, 20, 1_000_000])
def test_any_k_can_be_drawn(k: int) -> None:
    drawn(plots.class_sizes([run("strict", class_sizes=np.array([1, k, 3 * k]))], k))
    drawn(plots.class_sizes([run("strict", class_sizes=np.array([k]))], k))
    drawn(plots.violations(run("paper"), k, 3))


def test_ticks_are_round_and_cover() -> None:
    assert nice_ticks(0, 0.83) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert nice_ticks(0, 10.5, whole=True) == [0, 5, 10, 15]
    assert nice_ticks(0, 4, whole=True) == [0, 1, 2, 3, 4]
    assert nice_ticks(3, 3)[-1] >= 4
    assert power_ticks(1, 300) == [1, 2, 5, 10, 20, 50, 100, 200, 500]
    assert power_ticks(20, 20) == [20, 50]


@pytest.mark.parametrize(
    ("number", "words"), [(0.25, "0.25"), (1_500, "1,500"), (20_000, "20k"), (2_500_000, "2.5M")]
)
def test_axis_numbers_are_short(number: float, words: str) -> None:
    assert short(number) == words
