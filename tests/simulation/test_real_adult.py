"""The figures of DESIGN.md on real Adult: what strict promises, and what it wins back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from core.config import Project
from scripts._project import first_attributes, load_project
from scripts.datasets.registry import resolve
from scripts.simulation.deal import deal
from scripts.simulation.engine import simulate
from scripts.simulation.network import Network
from scripts.simulation.plan import Plan
from scripts.simulation.result import Mode, RunResult
from scripts.simulation.stream import Dealt
from site_node.trace import DeadLetters

SITES = 8
DELAY = 10_000


@dataclass(frozen=True)
class Setting:
    """How many quasi-identifiers, and the share of the loss that has to be won back."""

    attributes: int
    won_back: float


A = Setting(attributes=10, won_back=0.85)
D = Setting(attributes=4, won_back=0.60)


@cache
def adult(data_dir: Path, setting: Setting) -> tuple[Project, Dealt]:
    source = resolve("adult", data_dir)
    overrides = {
        "privacy.k": 100,
        "privacy.l": 2,
        "privacy.delay_tuples": DELAY // SITES,
        "clustering.beta": 50,
        "clustering.mu": 100,
    }
    project = load_project(None, source, overrides)
    project = replace(project, schema=first_attributes(project.schema, setting.attributes))
    return project, deal(project, source, Plan(sites=SITES), DeadLetters(None)).dealt


@cache
def outcome(data_dir: Path, setting: Setting, mode: Mode, latency: int = 0) -> RunResult:
    project, dealt = adult(data_dir, setting)
    network = Network(latency_tuples=latency)
    return simulate(project, dealt, mode=mode, network=network, seed=1)


def loss(data_dir: Path, setting: Setting, mode: Mode, latency: int = 0) -> float:
    found = outcome(data_dir, setting, mode, latency).information_loss
    assert found is not None
    return found


@pytest.mark.parametrize("setting", [A, D])
@pytest.mark.parametrize("latency", [0, 10, 100])
def test_strict_has_no_violation_and_misses_no_deadline(
    data_dir: Path, setting: Setting, latency: int
) -> None:
    result = outcome(data_dir, setting, "strict", latency)
    assert (result.violations_k, result.violations_l) == (0, 0)
    assert result.delay_max <= DELAY // SITES
    assert sorted(result.merged.record.tolist()) == list(range(result.tuples))
    assert result.tuples == 30_162


@pytest.mark.parametrize("setting", [A, D])
def test_strict_wins_back_what_it_should_of_the_loss(data_dir: Path, setting: Setting) -> None:
    none = loss(data_dir, setting, "none")
    centralised = loss(data_dir, setting, "centralised")
    strict = loss(data_dir, setting, "strict")
    assert (none - strict) / (none - centralised) >= setting.won_back


@pytest.mark.parametrize("setting", [A, D])
@pytest.mark.parametrize("latency", [10, 100])
def test_a_slow_network_makes_strict_no_worse_than_none(
    data_dir: Path, setting: Setting, latency: int
) -> None:
    assert loss(data_dir, setting, "strict", latency) <= loss(data_dir, setting, "none")


def test_strict_sends_at_most_two_percent_of_the_data(data_dir: Path) -> None:
    result = outcome(data_dir, A, "strict")
    assert result.bytes_to_relay <= 0.02 * result.dataset_bytes


def test_paper_does_not_keep_k_on_real_adult(data_dir: Path) -> None:
    result = outcome(data_dir, A, "paper")
    assert result.violations_k + result.violations_l > 0
