"""What ./scripts/demo shows: stores that publish together, before and after, and the audit."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from scripts._project import load_project
from scripts.datasets.registry import resolve
from scripts.simulation.table import BRIEF, meaning, notes, table

_SEED = "1"
_SAMPLE = 5
_WIDTH = 110


@click.command()
@click.option("--rows", default=100_000, show_default=True, type=click.IntRange(1_000))
@click.option("--out", default="out", show_default=True, help="Folder for the files.")
def main(rows: int, out: str) -> None:
    """Simulate a supermarket chain whose stores publish together, and audit the result."""
    console = Console(highlight=False, width=_WIDTH, soft_wrap=True)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    raw, toml, report = folder / "visits.csv", folder / "stores.toml", folder / "report.html"
    published, trace = folder / "published.csv", folder / "trace.csv"

    console.print(_heading(rows))
    _dcastle("data", "write", "stores", "-o", raw, "--rows", rows, "--schema", toml)
    common = ["-c", toml, "--format", "json"]
    files = ["--output", published, "--trace", trace, "--report", report]
    how = ["--site-column", "store", "--compare", "--seed", _SEED]
    runs = _dcastle("simulate", raw, *how, *files, *common)["runs"]
    audit = _dcastle("verify", published, "--original", raw, "--trace", trace, *common)

    console.print("\n".join(["", *table(runs, BRIEF), *notes(runs), ""]))
    before, after = _sample(raw, published, trace)
    console.print(_table("before (never published)", before))
    console.print(_table("after, the same visits (strict)", after))
    console.print(f"\n{_verdict(audit)}\n")
    for sentence in meaning(runs, audit["k_required"], audit["l_required"]):
        console.print(sentence, soft_wrap=False)
    console.print(f"Report: {report}. To publish: {published}. Private: {raw}, {trace}")


def _heading(rows: int) -> str:
    stream = resolve("stores")
    visits = pa.Table.from_batches(stream.batches(rows))
    stores, customers = (len(pc.unique(visits[name])) for name in ("store", "customer"))
    promise = load_project(None, stream, {}).parameters
    return (
        f"{stores} stores, {rows:,} visits, {customers:,} customers; k={promise.k}, "
        f"l={promise.l}, delay {promise.delay_tuples} visits per store"
    )


def _dcastle(*arguments: object) -> dict[str, Any]:
    """Run a command as a user would; its JSON, or the end of the demo when it fails."""
    line = [sys.executable, "-m", "scripts.cli", *map(str, arguments)]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.stdout.write(done.stdout)
        raise SystemExit(done.returncode)
    return json.loads(done.stdout) if "json" in line else {}


def _sample(raw: Path, published: Path, trace: Path) -> tuple[list[list[str]], list[list[str]]]:
    """A few visits as they came and as they were published, each with its header.

    The trace names the input row of every published line, in order: the stores stream has no
    rejected rows, whose lines would stand before them.
    """
    lines, shown = _read(trace)[1:], _read(published)
    visits = _read(raw)
    places = [len(lines) * part // (2 * _SAMPLE) for part in range(1, 2 * _SAMPLE, 2)]
    before = [visits[1 + int(lines[place][0])] for place in places]
    after = [shown[1 + place] for place in places]
    return [visits[0], *before], [shown[0], *after]


def _read(file: Path) -> list[list[str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


def _table(title: str, rows: list[list[str]]) -> Table:
    table = Table(title=title, title_justify="left", pad_edge=False, box=None)
    for name in rows[0]:
        table.add_column(name, no_wrap=True)
    for row in rows[1:]:
        table.add_row(*row)
    return table


def _verdict(audit: dict[str, Any]) -> str:
    verdict = "passed" if audit["passed"] else "BREACH"
    return (
        f"Audit of the merged output: {verdict}. Every class holds at least {audit['k']} customers "
        f"({audit['k_required']} required) and {audit['l']} product groups "
        f"({audit['l_required']} required); {audit['average_class_size']:.0f} visits on average."
    )


if __name__ == "__main__":
    main()
