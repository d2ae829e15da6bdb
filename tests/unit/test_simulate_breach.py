"""`dcastle simulate` when a mode breaks its promise: it says so and publishes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scripts.cli import run
from scripts.simulation import engine
from scripts.simulation.result import RunResult, Violation

FLAGS = ["simulate", "--rows", "2000", "--seed", "1"]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An engine that finds a class below k in every run; files go to this folder."""
    real = engine.simulate

    def simulate(*arguments: Any, **named: Any) -> RunResult:
        result = real(*arguments, **(named | {"mode": "none"}))
        short = (Violation(class_id=7, persons=3, values=2),)
        return replace(result, mode=named["mode"], violations_k=1, violations=short)

    monkeypatch.setattr(engine, "simulate", simulate)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("mode", ["strict", "none"])
def test_a_breach_is_exit_1_and_leaves_the_report_only(
    broken: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    files = ["--output", "o.csv", "--trace", "t.csv", "--report", "r.html"]
    assert run([*FLAGS, "--exchange", mode, *files]) == 1
    said = capsys.readouterr()
    assert f"classes below k or l: {mode} published 1; no output was written" in said.err
    assert mode in said.out
    assert [path.name for path in broken.iterdir()] == ["r.html"]


def test_what_paper_publishes_below_k_is_expected(
    broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*FLAGS, "--exchange", "paper", "--output", "o.csv"]) == 0
    assert "it published 1 class below k or l" in capsys.readouterr().out
    assert (broken / "o.csv").exists()


def test_one_breach_of_a_comparison_is_enough(
    broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*FLAGS, "--compare"]) == 1
    said = capsys.readouterr().err
    assert "centralised published 1, none published 1, strict published 1;" in said
