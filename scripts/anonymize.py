"""`dcastle anonymize`: one site's stream in, its anonymised stream out."""

from __future__ import annotations

import json
import queue
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from core.errors import ConfigurationError, Fault
from scripts._files import clashes, letters_beside, misfits
from scripts._kernels import prepare

if TYPE_CHECKING:
    from core.config import Project
    from scripts.datasets.registry import DataSet
    from site_node.batch import RawBatch
    from site_node.pipeline import Pipeline
    from site_node.summary import Summary

_FORMATS = click.Choice(["csv", "jsonl", "parquet"])
_SITE = "site-1"


@click.command("anonymize")
@click.argument("data", metavar="INPUT")
@click.option("-o", "--output", required=True, metavar="FILE", help="Where to; - for a pipe.")
@click.option("-c", "--config", metavar="TOML", help="The schema; a named data set has its own.")
@click.option("--k", type=int, help="Persons in every class.")
@click.option("--l", type=int, help="Sensitive values in every class.")
@click.option("--delay-tuples", type=int, help="Records that may come before one is decided.")
@click.option("--delay-seconds", type=float, help="Seconds that may pass before one is decided.")
@click.option("--order", type=click.Choice(["released", "input"]), help="Order of the output.")
@click.option("--seed", type=int, help="Repeat a run exactly; without it, chance decides.")
@click.option("--bounds", is_flag=True, help="Numbers as NAME_min and NAME_max, not [lo,hi].")
@click.option("--trace", metavar="FILE", help="Private: what became of every input row.")
@click.option("--dead-letter", metavar="FILE", help="Private: rejected rows with the reason.")
@click.option("--input-format", type=_FORMATS, help="Of INPUT; told by its name otherwise.")
@click.option("--output-format", type=_FORMATS, help="Of FILE; told by its name otherwise.")
@click.option("--rows", type=click.IntRange(min=0), help="Of a named data set: so many rows.")
@click.option("--data-dir", metavar="DIR", help="Where the named data sets are.")
@click.option("--format", "report", type=click.Choice(["txt", "json"]), default="txt")
def command(data: str, output: str, config: str | None, report: str, **flags: Any) -> None:
    """Anonymise one stream: every published class has k persons and l sensitive values.

    INPUT is a CSV, JSON Lines or Parquet file (.gz too), - for a pipe, or the name of a data set
    (stores, adult, ...). Rows that cannot be used are kept in a dead-letter file with the reason.
    The output appears under its name when it is complete.

    \b
    Examples:
      dcastle anonymize visits.csv -o published.csv -c dcastle.toml
      dcastle anonymize visits.csv.gz -o out.parquet -c dcastle.toml --k 20 --trace trace.csv
      generate | dcastle anonymize - -o - -c dcastle.toml > published.csv
      dcastle anonymize stores -o stores.csv --rows 100000
    """
    started = time.perf_counter()
    from scripts._project import load_project
    from scripts.datasets.registry import resolve

    folder = flags["data_dir"]
    source = resolve(data, Path(folder) if folder else None)
    project = load_project(
        config,
        source,
        {
            "privacy.k": flags["k"],
            "privacy.l": flags["l"],
            "privacy.delay_tuples": flags["delay_tuples"],
            "privacy.delay_seconds": flags["delay_seconds"],
            "output.order": flags["order"],
        },
    )
    options = FileOptions(
        output=output,
        trace=flags["trace"],
        dead_letter=flags["dead_letter"],
        input_format=flags["input_format"],
        output_format=flags["output_format"],
        bounds=flags["bounds"],
        rows=flags["rows"],
    )
    _refuse_clashes(data, config, options)
    _refuse_misfits(project, source, options)
    prepare()
    seed = flags["seed"] if flags["seed"] is not None else secrets.randbits(63)
    summary = anonymise_files(project, source, seed, options)
    result = summary.as_dict() | {
        "seed": seed,
        "seconds": time.perf_counter() - started,
        "dead_letter": options.letters if summary.rejected else None,
    }
    _report(result, report, to_stderr=output == "-")


def _refuse_clashes(data: str, config: str | None, options: FileOptions) -> None:
    """No file of a run may be another one of it; what is private does not go to a pipe."""
    named = {"INPUT": data, "-c": config, "-o": options.output}
    private = {"--trace": options.trace, "--dead-letter": options.letters}
    faults = list(clashes(named, private))
    if faults:
        raise ConfigurationError(faults)


def _refuse_misfits(project: Project, source: DataSet, options: FileOptions) -> None:
    """Flags that do not go with this source, this schema or each other."""
    from site_node.render import Renderer
    from site_node.source import format_of

    form = options.output_format or format_of(options.output)
    faults = list(misfits(source, options.rows, options.output, form))
    names = Renderer(project.schema, bounds=options.bounds).names
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        faults.append(Fault(message=f"--bounds would give two columns the name '{name}'"))
    if faults:
        raise ConfigurationError(faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """The files of a run and their formats; None means: told by the name."""

    output: str
    trace: str | None = None
    dead_letter: str | None = None
    input_format: str | None = None
    output_format: str | None = None
    bounds: bool = False
    rows: int | None = None

    @property
    def letters(self) -> str:
        """Where rejected rows go: beside the output, unless said otherwise."""
        return self.dead_letter or letters_beside(self.output)


def anonymise_files(project: Project, source: DataSet, seed: int, options: FileOptions) -> Summary:
    """Anonymise a file, a pipe or a named data set into a file; returns what was done."""
    from scripts import _intake_lines
    from scripts._reading import read_source
    from site_node.intake import source_options
    from site_node.pipeline import Pipeline
    from site_node.render import Renderer
    from site_node.sink import Sink
    from site_node.source import format_of
    from site_node.trace import DeadLetters, Trace

    renderer = Renderer(project.schema, bounds=options.bounds)
    letters = DeadLetters(options.letters)
    trace = Trace(options.trace) if options.trace else None
    with ExitStack() as undo:
        undo.callback(letters.discard)
        if trace is not None:
            undo.callback(trace.discard)
        form = options.output_format or format_of(options.output)
        with Sink(options.output, form, renderer) as sink:
            pipeline = Pipeline(
                project,
                seed=seed,
                sink=sink,
                dead_letters=letters,
                renderer=renderer,
                site=_SITE,
                trace=trace,
            )
            needs = source_options(project)
            batches = read_source(source, needs, rows=options.rows, form=options.input_format)
            _pump(pipeline, batches, project.parameters.delay_seconds, sink.flush)
            if pipeline.summary.rows and not pipeline.summary.accepted:
                letters.commit()
                raise _intake_lines.nothing_usable(pipeline.summary, letters.name)
        undo.pop_all()
    letters.commit()
    if trace is not None:
        trace.commit()
    return pipeline.summary


def _pump(
    pipeline: Pipeline, batches: Iterator[RawBatch], delay_seconds: float | None, flush: Any
) -> None:
    """Move batches into the pipeline until the source ends; let time pass while it is quiet."""
    from scripts._reading import Ahead

    ahead = Ahead(batches)
    # Without a limit in seconds time is of no consequence, and a run can be repeated exactly.
    tick_s = min(1.0, delay_seconds / 4) if delay_seconds else None
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=True) as bar:
        task = bar.add_task("anonymising")
        while True:
            now = time.monotonic_ns() if tick_s else 0
            try:
                batch = ahead.next_batch(tick_s)
            except queue.Empty:
                pipeline.tick(time.monotonic_ns())
                flush()
                continue
            if batch is None:
                break
            pipeline.take(batch, now if tick_s is None else time.monotonic_ns())
            bar.update(task, description=f"anonymising: {pipeline.summary.rows:,} rows")
    pipeline.finish()


def _report(result: dict[str, Any], report: str, *, to_stderr: bool) -> None:
    if report == "json":
        click.echo(json.dumps(result, indent=2), err=to_stderr)
        return
    for line in _lines(result):
        click.echo(line, err=to_stderr)


def _lines(result: dict[str, Any]) -> Iterator[str]:
    from scripts import _intake_lines

    rows = result["rows"]
    rate = rows / result["seconds"] if result["seconds"] else 0.0
    yield f"{rows:,} rows in {result['seconds']:.2f} s ({rate:,.0f} rows/s), seed {result['seed']}"
    loss = result["information_loss"]
    shown = "-" if loss is None else f"{loss:.4f}"
    yield (
        f"published {result['published']:,} in {result['classes']:,} classes, "
        f"information loss {shown}"
    )
    yield f"suppressed {result['suppressed']:,}, rejected {result['rejected']:,}"
    yield from _intake_lines.lines(result)
    if rows and not result["published"]:
        yield (
            "every record was suppressed: the stream never held enough persons or values at once; "
            "lower k or l, or raise the delay"
        )
