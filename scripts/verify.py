"""`dcastle verify`: audit a published stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from core.verify import audit
from core.verify_findings import Audit, SmallClass
from core.verify_rules import CLASS_ID, Rules
from scripts._audit_files import read_original, read_output, read_trace
from scripts._audit_rules import read_rules

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("verify")
@click.argument("output", type=_FILE)
@click.option(
    "-c",
    "--config",
    type=_FILE,
    default="dcastle.toml",
    show_default=True,
    help="The schema, with the k and l that were promised.",
)
@click.option("--original", type=_FILE, help="The raw data that OUTPUT was made from.")
@click.option("--trace", type=_FILE, help="The trace that `dcastle anonymize --trace` wrote.")
@click.option("--format", "style", type=click.Choice(["txt", "json"]), default="txt")
@click.option(
    "--worst",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many of the smallest classes to name.",
)
def command(
    output: Path, config: Path, original: Path | None, trace: Path | None, style: str, worst: int
) -> int:
    """Audit OUTPUT: at least k persons and l sensitive values in every class.

    Shares no code with the anonymiser. With --original and --trace, persons are counted instead of
    rows, and every raw row is followed to the class that must cover it. The delay is not audited:
    no file says when a row was published.

    \b
    Examples:
      dcastle verify published.csv -c dcastle.toml
      dcastle verify published.csv -c dcastle.toml --original visits.csv --trace trace.csv

    Exit codes: 0 passed, 1 a breach or unreadable data, 4 bad arguments or schema.
    """
    rules, delimiter = read_rules(config)
    result = audit(
        rules,
        read_output(output, _names(rules)),
        trace=None if trace is None else read_trace(trace),
        original=(
            None if original is None else read_original(original, rules.original_columns, delimiter)
        ),
        worst=worst,
    )
    if style == "json":
        click.echo(json.dumps(asdict(result), indent=2, allow_nan=False))
    else:
        click.echo("\n".join(_report(output, result)))
    return 0 if result.passed else 1


def _names(rules: Rules) -> list[str]:
    return [*(each.name for each in rules.quasi_identifiers), *rules.carried, CLASS_ID]


def _report(output: Path, result: Audit) -> Iterator[str]:
    share = _figure(result.suppressed_share, ".2%")
    rejected = "" if result.rejected is None else f", {result.rejected:,} rejected"
    yield (
        f"{output}: {result.rows:,} rows, {result.classes:,} classes, "
        f"{result.suppressed:,} suppressed ({share}){rejected}"
    )
    yield ""
    yield from _figures(result)
    if result.worst:
        yield ""
        yield from _worst(result.worst)
    if result.notes:
        yield ""
        yield from (f"note: {note}" for note in result.notes)
    yield ""
    yield from _verdict(result)


def _figures(result: Audit) -> Iterator[str]:
    k, l = _figure(result.k, ","), _figure(result.l, ",")
    yield f"k                 {k} {result.k_counts} ({result.k_required:,} required)"
    yield f"l                 {l} values ({result.l_required:,} required)"
    yield f"t                 {_figure(result.t, '.4f')}"
    yield (
        f"information loss  {_figure(result.information_loss, '.4f')} "
        f"({_figure(result.information_loss_published, '.4f')} in classes)"
    )
    for name, loss in result.loss_by_attribute.items():
        yield f"  {_figure(loss, '.4f')}  {name}"
    yield (
        f"class size        {_figure(result.average_class_size, ',.1f')} rows on average "
        f"({_figure(result.average_class_size_over_k, '.2f')} k)"
    )
    yield f"discernibility    {result.discernibility:,}"


def _worst(classes: list[SmallClass]) -> Iterator[str]:
    yield "smallest classes"
    for each in classes:
        counts = [
            f"{each.rows:,} rows",
            *([] if each.persons is None else [f"{each.persons:,} persons"]),
            *([] if each.values is None else [f"{each.values:,} values"]),
        ]
        shown = ", ".join(f"{name} {value}" for name, value in each.shown.items())
        yield f"  class {each.class_id}: {', '.join(counts)}; {shown}"


def _verdict(result: Audit) -> Iterator[str]:
    if result.passed:
        yield click.style("PASSED", fg="green")
        return
    yield from (f"  {breach.kind}: {breach.message}" for breach in result.breaches)
    if result.breach_count > len(result.breaches):
        yield f"  and {result.breach_count - len(result.breaches):,} more"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in result.breach_count_by_kind.items())
    yield click.style(f"BREACH: {kinds}", fg="red")


def _figure(value: float | None, layout: str) -> str:
    return "-" if value is None else format(value, layout)
