"""`dcastle data`: the named data sets, where they are, how to get them, how to write one out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
from rich.table import Table

from core.errors import DataError
from scripts.datasets import export, fetch, places
from scripts.datasets.entry import Entry
from scripts.datasets.registry import ENTRIES, names, resolve

PIPE_COLUMNS: Final = 240

name_argument = click.argument("name", metavar="NAME", type=click.Choice(names()))
data_dir_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Look here first, before $DCASTLE_DATA and the user's cache.",
)


def _examples(*lines: str) -> str:
    # The backspace tells click to keep the lines as they are.
    return "\n".join(["\b", "Examples:", *(f"  dcastle data {line}" for line in lines)])


@click.group(
    epilog=_examples(
        "list",
        "fetch adult",
        "path adult",
        "write stores -o visits.csv --rows 100000 --schema dcastle.toml",
    )
)
def command() -> None:
    """List the named data sets, find them, fetch them, write them out."""


@command.command("list", epilog=_examples("list", "list --format json"))
@data_dir_option
@click.option("--format", "format_", type=click.Choice(["txt", "json"]), default="txt")
def list_(data_dir: Path | None, format_: str) -> None:
    """List the data sets: how large, whose, where they are."""
    rows = [_describe(entry, data_dir) for entry in ENTRIES.values()]
    if format_ == "json":
        click.echo(json.dumps(rows, indent=2))
    else:
        _print_table(rows)


@command.command(epilog=_examples("path adult", "path taxi --data-dir ./data"))
@name_argument
@data_dir_option
def path(name: str, data_dir: Path | None) -> None:
    """Print where the data set's file is."""
    found = resolve(name, data_dir).path
    if found is None:
        advice = f"dcastle data write {name} -o {name}.csv"
        raise DataError(f"'{name}' is generated and has no file; make one with: {advice}")
    click.echo(found)


@command.command("fetch", epilog=_examples("fetch adult", "fetch diabetes130 --data-dir ./data"))
@name_argument
@data_dir_option
def fetch_(name: str, data_dir: Path | None) -> None:
    """Download the data set from its public origin and check its sha256.

    It goes to --data-dir, else to $DCASTLE_DATA, else to the user's cache. What is there already
    and right is not downloaded again. Exit code 2 when the origin cannot be reached.
    """
    entry = ENTRIES[name]
    if not entry.needs:
        click.echo(f"'{name}' is generated: nothing to fetch", err=True)
        return
    with _progress() as progress:
        files = fetch.fetch(entry, places.home(data_dir), progress)
    for file in files:
        click.echo(file)


@command.command(
    epilog=_examples(
        "write stores -o visits.csv --rows 1000000 --seed 7",
        "write adult -o adult.parquet --schema adult.toml",
        "write stores -o - --rows 10",
    )
)
@name_argument
@click.option("-o", "--output", required=True, help="File to write, or '-' for CSV to stdout.")
@click.option("--rows", type=click.IntRange(min=1), help="Only so many rows (stores: 100,000).")
@click.option("--seed", type=click.IntRange(min=0), default=1, help="For the generated stream.")
@click.option(
    "--schema",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the set's ready dcastle.toml here.",
)
@data_dir_option
def write(
    name: str, output: str, rows: int | None, seed: int, schema: Path | None, data_dir: Path | None
) -> None:
    """Write the data set as .csv, .jsonl (both also .gz) or .parquet."""
    data_set = resolve(name, data_dir)
    count = export.write(data_set.batches(rows, seed), output)
    if schema is not None:
        schema.write_text(data_set.portable_schema_text(), encoding="utf-8")
    if output != export.STDOUT:
        click.echo(f"{output}: {count:,} rows", err=True)


def _describe(entry: Entry, data_dir: Path | None) -> dict[str, Any]:
    found = places.find(entry, data_dir) if entry.needs else None
    return {
        "name": entry.name,
        "about": entry.about,
        "rows": entry.rows,
        "persons": entry.persons,
        "person_column": entry.person_column,
        "generated": not entry.needs,
        "found": str(found) if found else None,
        "licence": entry.licence,
    }


def _print_table(rows: list[dict[str, Any]]) -> None:
    table = Table("name", box=None, pad_edge=False)
    table.add_column("rows", justify="right")
    table.add_column("persons", justify="right")
    table.add_column("where", overflow="fold")
    table.add_column("licence")
    for row in rows:
        where = "built in" if row["generated"] else row["found"] or "not here"
        counts = [_count(row[key], generated=row["generated"]) for key in ("rows", "persons")]
        table.add_row(row["name"], *counts, where, row["licence"])
    # A pipe has no width to fit into: there, one line a set.
    console = Console() if sys.stdout.isatty() else Console(width=PIPE_COLUMNS)
    console.print(table)


def _count(number: int | None, *, generated: bool) -> str:
    if number is None:
        return "any" if generated else "none"
    return f"{number:,}"


@contextmanager
def _progress() -> Iterator[fetch.Progress]:
    """Show a bar for each address, on a terminal only."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def show(url: str, done: int, total: int | None) -> None:
            if url not in tasks:
                tasks[url] = bars.add_task(url.rpartition("/")[2], total=total)
            bars.update(tasks[url], completed=done)

        yield show
