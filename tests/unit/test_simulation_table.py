"""The table of a comparison, and the sentences that say what its numbers mean."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.simulation.table import BRIEF, bytes_text, meaning, notes, share_text, table, won_back

LOSSES = {"centralised": 0.4, "none": 0.6, "paper": 0.65, "strict": 0.45}


def run(mode: str, **other: Any) -> dict[str, Any]:
    numbers = {
        "mode": mode,
        "sites": 8,
        "tuples": 10_000,
        "information_loss": LOSSES[mode],
        "suppressed": 5,
        "classes": 412,
        "violations": 12 if mode == "paper" else 0,
        "delay_max": 499,
        "messages": 1_234,
        "bytes_to_relay": 12_345,
        "overhead_percent": 1.5,
        "tuples_per_second": 123_456.7,
        "lost": 0,
    }
    return numbers | other


def runs(**losses: float | None) -> list[dict[str, Any]]:
    return [run(mode, information_loss=(LOSSES | losses)[mode]) for mode in LOSSES]


def said(*all_runs: dict[str, Any]) -> str:
    return " ".join(meaning(all_runs, 20, 3))


def test_a_row_for_each_run_with_its_remark_beside_it() -> None:
    head, *rows = table(runs())
    assert head.split("  ")[-1] == "tuples/s"
    assert [row.split()[0] for row in rows] == list(LOSSES)
    cells = rows[3].split("  ")
    for cell in ("0.4500", "0.05 %", "412", "0", "1,234", "12.3 kB", "1.50 %", "499", "123,457"):
        assert cell in [each.strip() for each in cells]
    assert rows[3].endswith("what you would run")
    assert "12.3 kB" not in rows[0]


def test_on_a_narrow_terminal_the_remarks_go_below() -> None:
    lines = table(runs(), width=110)
    assert max(map(len, lines)) <= 110
    assert lines[-1].startswith("strict")
    assert lines[-1].endswith("what you would run")
    assert len(table(runs(), BRIEF, width=110)) == 5


def test_paper_is_called_a_reproduction_with_its_classes() -> None:
    assert list(notes(runs())) == ["paper: a reproduction; it published 12 classes below k or l"]
    assert list(notes([run("paper", violations=1)])) == [
        "paper: a reproduction; it published 1 class below k or l"
    ]
    assert list(notes([run("none", lost=1_200)])) == [
        "none: 1,200 records died with their site, without outcome"
    ]


@pytest.mark.parametrize(
    ("strict", "words"),
    [
        (0.45, "strict loses 0.4500: it wins back 75% of the difference."),
        (0.35, "strict loses 0.3500: it wins back all of the difference and more (125%)."),
        (
            0.70,
            "more than the sites alone: here the exchange did not help (-50% of the difference).",
        ),
    ],
)
def test_the_share_won_back_is_said_honestly(strict: float, words: str) -> None:
    assert words in said(*runs(strict=strict))


def test_where_there_is_nothing_to_win_back_it_is_said() -> None:
    assert "nothing to win back here. strict loses 0.4500." in said(*runs(centralised=0.61))
    by_mode = {each["mode"]: each for each in runs(strict=None)}
    assert won_back(by_mode) is None


def test_a_promise_that_was_kept_or_broken_is_said() -> None:
    assert "at least 20 persons and 3 sensitive values; the exchange sent 1.50 %" in said(*runs())
    assert "BREACH: strict published 2 classes below k=20 or l=3" in said(
        run("strict", violations=2)
    )
    (only,) = meaning([run("none")], 20, 3)
    assert only.startswith("Loss 0 is as the records came")


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (2_500_000, "2.5 MB"), (10**13, "10000.0 GB")],
)
def test_bytes_are_told_in_their_unit(count: int, words: str) -> None:
    assert bytes_text(count) == words


def test_a_few_of_many_are_not_none() -> None:
    assert share_text(1, 100_000) == "<0.01 %"
    assert share_text(7, 10_000) == "0.07 %"
    assert share_text(0, 10_000) == "0.0 %"
    assert share_text(0, 0) == "0.0 %"
