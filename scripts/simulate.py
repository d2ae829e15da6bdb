"""`dcastle simulate`: distributed sites on this machine, measured."""

from __future__ import annotations

import json
import secrets
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from core.errors import PrivacyBreachError
from scripts._kernels import prepare

if TYPE_CHECKING:
    from scripts.simulation.deal import Dealing
    from scripts.simulation.request import Request
    from scripts.simulation.result import RunResult

_UNLESS_TOLD: Final = "stores"
_PIPE_COLUMNS: Final = 1_000
# What of the summary of the input goes into the JSON.
_INPUT: Final = (
    "rows",
    "rejected",
    "rejected_by",
    "suppressed_by_policy",
    "clamped",
    "not_in_hierarchy",
    "dropped_columns",
)


@click.command("simulate")
@click.argument("data", required=False)
@click.option("-c", "--config", metavar="TOML", help="The schema; a named data set has its own.")
@click.option("--sites", type=int, help="How many sites.  [default: 8, or by the site column]")
@click.option("--k", type=int, help="Persons in every class.")
@click.option("--l", type=int, help="Sensitive values in every class.")
@click.option("--delay-tuples", type=int, help="Records of its site that may come before one.")
@click.option("--beta", type=int, help="Open clusters of a site.")
@click.option("--mu", type=int, help="Classes over which the expected loss is averaged.")
@click.option(
    "--exchange",
    type=click.Choice(["strict", "paper", "none"]),
    help="How sites exchange.  [default: the schema's, else strict]",
)
@click.option("--compare", is_flag=True, help="Run centralised, none, paper and strict.")
@click.option("--site-column", metavar="NAME", help="The column that says where a row comes from.")
@click.option(
    "--deal",
    type=click.Choice(["round-robin", "hash"]),
    help="Else: rows in turn, or by a hash of the person.  [default: round-robin]",
)
@click.option(
    "--latency-tuples",
    type=int,
    default=0,
    metavar="N",
    help="Records (of all sites) that come while a frame is under way.",
)
@click.option("--drop", type=float, default=0.0, metavar="P", help="Share of frames lost.")
@click.option("--duplicate", type=float, default=0.0, metavar="P", help="Share that come twice.")
@click.option(
    "--kill", multiple=True, metavar="SITE@N", help="The site dies after N records; repeatable."
)
@click.option("--attributes", type=int, metavar="N", help="Only the first N quasi-identifiers.")
@click.option("--rows", type=int, metavar="N", help="Of a named data set: so many rows.")
@click.option(
    "--repeat-to", type=int, metavar="N", help="Repeat the rows, reshuffled, until there are N."
)
@click.option("--seed", type=int, help="Repeat a run exactly; without it, chance decides.")
@click.option("--output", metavar="FILE", help="The merged stream; - for a pipe.")
@click.option("--trace", metavar="FILE", help="Private: what became of every input row.")
@click.option("--report", metavar="FILE", help="One HTML page with all figures and plots.")
@click.option("--dead-letter", metavar="FILE", help="Private: rejected rows with the reason.")
@click.option("--data-dir", metavar="DIR", help="Where the named data sets are.")
@click.option("--format", "style", type=click.Choice(["txt", "json"]), default="txt")
def command(data: str | None, style: str, **flags: Any) -> None:
    """Simulate sites that publish one merged stream; count loss, messages and bytes.

    DATA is a CSV, JSON Lines or Parquet file (.gz too), - for a pipe, or the name of a data set.
    Without it the built-in stores stream runs: 8 stores, each a site. The delay is that of one
    site. Time is counted in records; no process is started and nothing goes over a network.

    `paper` is a reproduction of dCASTLE and does not keep k in the merged output: it is for
    comparison only. `strict` does keep k and l. With --compare, --output and --trace are of the
    strict run.

    \b
    Examples:
      dcastle simulate --compare --report out.html
      dcastle simulate adult --sites 8 --k 100 --l 2 --delay-tuples 1250 --compare
      dcastle simulate visits.csv -c dcastle.toml --site-column store --output merged.csv \\
          --trace trace.csv
      dcastle simulate adult --sites 8 --delay-tuples 1250 --latency-tuples 200 --drop 0.05 \\
          --kill site-3@2000 --seed 1 --format json

    Exit codes: 0 ok, also when `paper` published classes below k or l; 1 when any other mode did.
    """
    from scripts.datasets.registry import resolve
    from scripts.simulation.request import read_request, require_stream

    seed = flags["seed"] if flags["seed"] is not None else secrets.randbits(63)
    folder = flags["data_dir"]
    source = resolve(data or _UNLESS_TOLD, Path(folder) if folder else None)
    request = read_request(source, data, flags, seed)
    prepare()

    from scripts.simulation.deal import deal
    from scripts.simulation.output import opened

    with opened(request.files, request.project.schema) as files:
        dealing = deal(request.project, source, request.plan, files.letters)
        require_stream(request, dealing.dealt)
        story = _Story(request, dealing, _run(request, dealing, seed), seed)
        if files.report is not None:
            files.write_report(_page(story))
        if breach := _breach(story):
            _say(story, style)
            files.keep_report()
            raise PrivacyBreachError(breach)
        files.write_outcomes(dealing, story.runs[-1].merged)
    _say(story, style)


def _run(request: Request, dealing: Dealing, seed: int) -> list[RunResult]:
    """Run every mode on the same records; a bar on a terminal."""
    from scripts.simulation.engine import simulate

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    hidden = not console.is_terminal
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=hidden) as bar:
        size = len(dealing.dealt)
        task = bar.add_task("simulating", total=size * len(request.modes))
        runs: list[RunResult] = []

        def show(done: int) -> None:
            bar.update(task, completed=size * len(runs) + done)

        for mode in request.modes:
            run = simulate(
                request.project,
                dealing.dealt,
                mode=mode,
                network=request.network,
                seed=seed,
                progress=show,
            )
            runs.append(run)
            show(0)
    return runs


@dataclass(frozen=True, slots=True, eq=False)
class _Story:
    """All there is to tell."""

    request: Request
    dealing: Dealing
    runs: list[RunResult]
    seed: int

    @property
    def numbers(self) -> list[dict[str, Any]]:
        from scripts.simulation.output import lost_records
        from scripts.simulation.table import as_json

        records = len(self.dealing.dealt)
        return [as_json(run, lost=len(lost_records(run.merged, records))) for run in self.runs]

    @property
    def input(self) -> dict[str, Any]:
        summary = self.dealing.summary
        letters = self.request.files.letters if summary.rejected else None
        counted = summary.as_dict()
        return {name: counted[name] for name in _INPUT} | {"dead_letter": letters}


def _breach(story: _Story) -> str:
    """What to complain of: only `paper` may publish a class that is short."""
    short = [run for run in story.numbers if run["mode"] != "paper" and run["violations"]]
    said = ", ".join(f"{run['mode']} published {run['violations']:,}" for run in short)
    return f"classes below k or l: {said}; no output was written" if short else ""


def _say(story: _Story, style: str) -> None:
    to_stderr = story.request.files.output == "-"
    if style == "json":
        runs: dict[str, Any] = {"runs": story.numbers}
        if len(story.request.modes) == 1:
            runs = story.numbers[0]
        told = runs | {"seed": story.seed, "input": story.input}
        click.echo(json.dumps(told, indent=2), err=to_stderr)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_COLUMNS
    for line in _lines(story, width):
        click.echo(line, err=to_stderr)


def _lines(story: _Story, width: int) -> Iterator[str]:
    from scripts import _intake_lines
    from scripts.simulation.table import meaning, notes, table

    parameters, files = story.request.project.parameters, story.request.files
    yield f"{_heading(story)}; seed {story.seed}"
    if rejected := story.input["rejected"]:
        yield f"{rejected:,} of {story.input['rows']:,} rows rejected"
    yield from _intake_lines.lines(story.input)
    if parameters.delay_seconds is not None:
        yield "delay_seconds is not simulated: time is counted in records"
    yield ""
    yield from table(story.numbers, width=width)
    yield from notes(story.numbers)
    yield ""
    yield from meaning(story.numbers, parameters.k, parameters.l)
    if written := [name for name in (files.output, files.trace, files.report) if name]:
        yield f"Files: {', '.join(written)}"


def _heading(story: _Story) -> str:
    """What was simulated, in one line."""
    import numpy as np

    dealt, project = story.dealing.dealt, story.request.project
    parameters = project.parameters
    persons = ""
    if project.schema.person is not None:
        persons = f" of {len(np.unique(dealt.records.person)):,} persons"
    return (
        f"{len(dealt.names):,} sites, {len(dealt):,} records{persons}; "
        f"k={parameters.k}, l={parameters.l}, delay {parameters.delay_tuples:,} records per site"
    )


def _page(story: _Story) -> str:
    """The report."""
    from scripts.simulation.report import Facts, page
    from scripts.simulation.table import meaning

    request = story.request
    project, network, plan = request.project, request.network, request.plan
    parameters, names = project.parameters, story.dealing.dealt.names
    way = f"by column '{plan.site_column}'" if plan.site_column else f"dealt by {plan.way}"
    facts = Facts(
        heading=_heading(story),
        command=shlex.join(["dcastle", *sys.argv[1:]]),
        meaning=tuple(meaning(story.numbers, parameters.k, parameters.l)),
        k=parameters.k,
        l=parameters.l,
        parameters={
            "sites": f"{len(names):,}, {way}: {names[0]} to {names[-1]}",
            "records": f"{len(story.dealing.dealt):,} ({story.input['rejected']:,} rows rejected)",
            "quasi-identifiers": ", ".join(a.name for a in project.schema.quasi_identifiers),
            "sensitive": project.schema.sensitive.name if project.schema.sensitive else "-",
            "k, l": f"{parameters.k}, {parameters.l}",
            "delay": f"{parameters.delay_tuples:,} records of a site",
            "beta, mu, reuse_max": f"{parameters.beta}, {parameters.mu}, {parameters.reuse_max}",
            "split": parameters.split,
            "latency": f"{network.latency_tuples:,} records of the whole stream, one way",
            "frames lost, doubled": f"{network.drop:.1%}, {network.duplicate:.1%}",
            "sites that die": ", ".join(f"{k.site}@{k.position}" for k in network.kills) or "none",
            "seed": str(story.seed),
        },
    )
    return page(story.runs, story.numbers, facts)
