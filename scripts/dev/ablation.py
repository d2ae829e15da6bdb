"""What each idea of the strict exchange is worth: `python -m scripts.dev.ablation`.

Runs the settings A to D of docs/protocol.md on Adult with one idea at a time left out, and prints
the loss and the bytes of each as the mean over some seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from unittest import mock

import click
import numpy as np

from core.config import Parameters, Project
from scripts._kernels import prepare
from scripts._project import first_attributes, load_project
from scripts.datasets.registry import resolve
from scripts.simulation.deal import deal
from scripts.simulation.engine import simulate
from scripts.simulation.network import Network
from scripts.simulation.plan import Plan
from scripts.simulation.result import Mode
from scripts.simulation.stream import Dealt
from site_node.session import Tactics
from site_node.trace import DeadLetters

# Quasi-identifiers, k, and the delay of all sites together.
SETTINGS: Final = {
    "A": (10, 100, 10_000),
    "B": (10, 100, 2_000),
    "C": (10, 400, 10_000),
    "D": (4, 100, 10_000),
}


@contextmanager
def as_it_is() -> Iterator[None]:
    """Nothing is left out."""
    yield


@contextmanager
def with_tactics(**changed: float) -> Iterator[None]:
    """Every site has other tactics."""
    tactics = replace(Tactics(), **changed)  # type: ignore[arg-type]
    with mock.patch("site_node.session.Tactics", return_value=tactics):
        yield


@contextmanager
def without_refill() -> Iterator[None]:
    """A settlement that is short asks everybody at any distance at once."""
    with mock.patch("relay_server.settlement.WIDENED_MAX", 0):
        yield


VARIANTS: Final[dict[str, Callable[[], AbstractContextManager[None]]]] = {
    "strict": as_it_is,
    "the box is a ball: grown in 1 step": lambda: with_tactics(growth_steps=1),
    "the box is grown in 4 steps": lambda: with_tactics(growth_steps=4),
    "the box is grown in 8 steps": lambda: with_tactics(growth_steps=8),
    "first radius 1.25 shares": lambda: with_tactics(radius_first=1.25),
    "first radius 3 shares": lambda: with_tactics(radius_first=3.0),
    "no radius between: anywhere at once": without_refill,
    "no summaries": lambda: with_tactics(share_news=False),
}


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where the data sets are.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--sites", default=8, show_default=True, type=click.IntRange(2))
@click.option("--settings", default="ABCD", show_default=True)
@click.option("--latency-tuples", default=0, show_default=True, type=click.IntRange(0))
def main(data_dir: Path | None, seeds: int, sites: int, settings: str, latency_tuples: int) -> None:
    """Print loss and bytes of every variant, and what centralised and none come to."""
    prepare()
    network = Network(latency_tuples=latency_tuples)
    streams = {name: _stream(data_dir, sites, *SETTINGS[name]) for name in settings}
    click.echo(f"{'':38}" + "".join(f"{name:>16}" for name in settings))
    for mode in ("centralised", "none"):
        _print_row(mode, [_mean(*stream, mode, network, seeds) for stream in streams.values()])
    for name, variant in VARIANTS.items():
        with variant():
            row = [_mean(*stream, "strict", network, seeds) for stream in streams.values()]
        _print_row(name, row)


def _stream(
    data_dir: Path | None, sites: int, attributes: int, k: int, delay: int
) -> tuple[Project, Dealt]:
    source = resolve("adult", data_dir)
    project = load_project(None, source, {})
    parameters: Parameters = replace(project.parameters, k=k, l=2, delay_tuples=delay // sites)
    schema = first_attributes(project.schema, attributes)
    project = replace(project, schema=schema, parameters=parameters)
    dealing = deal(project, source, Plan(sites=sites), DeadLetters("rejected.jsonl"))
    return project, dealing.dealt


def _mean(
    project: Project, dealt: Dealt, mode: Mode, network: Network, seeds: int
) -> tuple[float, float]:
    runs = [
        simulate(project, dealt, mode=mode, network=network, seed=seed)
        for seed in range(1, seeds + 1)
    ]
    short = sum(run.violations_k + run.violations_l for run in runs)
    if short:
        raise SystemExit(f"{short} classes below k or l")
    losses = [run.information_loss for run in runs if run.information_loss is not None]
    return float(np.mean(losses)), float(np.mean([run.overhead_percent for run in runs]))


def _print_row(name: str, cells: list[tuple[float, float]]) -> None:
    shown = "".join(f"{loss:>9.4f} {sent:5.2f}%" for loss, sent in cells)
    click.echo(f"{name:38}{shown}")


if __name__ == "__main__":
    main()
