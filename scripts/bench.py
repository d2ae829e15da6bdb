"""`dcastle bench`: measure the core and the way from CSV to CSV."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import track

from scripts._kernels import prepare

if TYPE_CHECKING:
    import pyarrow as pa

    from core.config import Project


@click.group("bench")
def command() -> None:
    """Measure speed, stalls and loss on this machine.

    \b
    Examples:
      dcastle bench core
      dcastle bench core --only "paper, l=2" --rows 200000 --format json
      dcastle bench io
    """


def _shared(function: Any) -> Any:
    for option in (
        click.option("--data", default="adult", show_default=True, help="A named data set."),
        click.option("--rows", default=1_000_000, show_default=True, type=click.IntRange(1)),
        click.option("--repeat", default=3, show_default=True, type=click.IntRange(1)),
        click.option("--data-dir", metavar="DIR", help="Where the named data sets are."),
        click.option("--format", "report", type=click.Choice(["txt", "json"]), default="txt"),
    ):
        function = option(function)
    return function


@command.command("core")
@_shared
@click.option("--only", metavar="NAME", help="Only the settings of this name.")
@click.option("--without-castle", is_flag=True, help="Leave out the paper's split beside ours.")
def core(
    data: str,
    rows: int,
    repeat: int,
    data_dir: str | None,
    report: str,
    only: str | None,
    without_castle: bool,
) -> None:
    """The machine alone, with its gate: tuples a second of one core, over CASTLE's parameters.

    worst_batch_ms is the longest that a batch of 1,024 tuples took. The castle_ columns are the
    same stream with the paper's split (KNN for l=1, buckets of sensitive values for l>1).
    """
    prepare()
    from scripts._bench_core import CoreBench, settings

    project, table = _load(data, data_dir)
    bench = CoreBench(project, table, rows, seed=0)
    chosen = [s for s in settings() if only in (None, s.name)]
    if not chosen:
        names = ", ".join(dict.fromkeys(s.name for s in settings()))
        raise click.BadParameter(f"no setting of that name; there are {names}", param_hint="--only")

    def measure() -> Iterator[dict[str, Any]]:
        for setting in _progress(chosen, report):
            row = bench.run(setting, repeat=repeat, split="cut")
            if not without_castle:
                castle = bench.run(setting, repeat=1, split="castle")
                row |= {
                    f"castle_{key}": castle[key]
                    for key in ("tuples_per_second", "worst_batch_ms", "information_loss")
                }
            yield row

    _print(measure(), report)


@command.command("io")
@_shared
def io(data: str, rows: int, repeat: int, data_dir: str | None, report: str) -> None:
    """CSV in, anonymised CSV out, against the time arrow needs to read and write the same files."""
    prepare()
    from scripts import _bench_io

    project, table = _load(data, data_dir)
    _print([_bench_io.run(project, table, rows, repeat=repeat, seed=0)], report)


def _load(name: str, data_dir: str | None) -> tuple[Project, pa.Table]:
    import pyarrow as pa

    from scripts._project import load_project
    from scripts.datasets.registry import resolve

    data = resolve(name, Path(data_dir) if data_dir else None)
    return load_project(None, data, {}), pa.Table.from_batches(data.batches())


def _progress(items: list[Any], report: str) -> Iterable[Any]:
    console = Console(stderr=True)
    hidden = report == "json" or not console.is_terminal
    return track(items, "measuring", console=console, disable=hidden, transient=True)


def _print(rows: Iterable[dict[str, Any]], report: str) -> None:
    if report == "json":
        click.echo(json.dumps(list(rows), indent=2))
        return
    header: list[str] = []
    for row in rows:
        cells = {key: _cell(value) for key, value in row.items()}
        if not header:
            header = list(cells)
            click.echo("  ".join(key.rjust(_width(key)) for key in header))
        click.echo("  ".join(cells[key].rjust(_width(key)) for key in header))


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.4f}" if value < 1 else f"{value:.2f}"


def _width(key: str) -> int:
    return max(len(key), 11)
