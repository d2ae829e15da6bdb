"""`dcastle init`: draft a commented dcastle.toml from a data file.

The draft is a start for a person who knows the data, and errs on the side of dropping columns.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from core.config import DELAY_TUPLES_MAX, parse_project
from core.errors import DataError
from core.schema import Kind, Role
from scripts._init_guess import Column, Guess, describe, find_person, guess_all
from scripts._init_sample import Sample, read_sample

_WIDTH: Final = 96
# The delay when none is given: room for this many classes to form side by side.
_CLASSES_WAITING: Final = 100
_SENSITIVE_EXAMPLE: Final = (
    "# No column is sensitive yet. To have at least l different values of one in every class,",
    "# give it this role (or run again with --sensitive COLUMN) and raise l:",
    "#",
    "# [[attribute]]",
    '# name = "diagnosis"',
    '# role = "sensitive"',
)


@click.command(name="init", short_help="Draft a commented dcastle.toml from a data file.")
@click.argument("data", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write here, not to stdout.")
@click.option("--force", is_flag=True, help="Overwrite the output file.")
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="Learn from this many rows.",
)
@click.option("--person", metavar="COLUMN", help="The column that tells persons apart.")
@click.option("--sensitive", metavar="COLUMN", help="The column whose values are to be diverse.")
@click.option("--k", type=int, default=10, show_default=True, help="Persons in a class, at least.")
@click.option("--l", type=int, default=1, show_default=True, help="Sensitive values in a class.")
@click.option("--delay-tuples", type=int, help="Records a record may wait for.  [default: 100 k]")
def command(
    data: Path,
    output: Path | None,
    force: bool,
    rows: int,
    person: str | None,
    sensitive: str | None,
    k: int,
    l: int,
    delay_tuples: int | None,
) -> None:
    """Draft a commented dcastle.toml from DATA (CSV, JSON lines or Parquet, gzip by suffix).

    Every role in the draft is a guess: read it before you publish anything. Columns that could
    identify a person, and text that could be anything, are dropped. The sensitive column is yours
    to name.

    \b
    Examples:
      dcastle init visits.csv > dcastle.toml
      dcastle init visits.csv.gz -o dcastle.toml --person patient_nbr --sensitive diagnosis --l 3
    """
    if delay_tuples is None:
        delay_tuples = min(max(k, 1) * _CLASSES_WAITING, DELAY_TUPLES_MAX)
    sample = read_sample(data, rows=rows)
    for warning in sample.warnings:
        click.echo(f"warning: {warning}", err=True)
    numbers = {"k": k, "l": l, "delay_tuples": delay_tuples}
    text = draft(sample, data.name, person=person, sensitive=sensitive, numbers=numbers)
    if output is None:
        # Bytes: TOML is UTF-8 whatever the terminal is.
        click.echo(text.encode(), nl=False)
    else:
        _write(output, text, force=force)
        click.echo(f"wrote {output}: every role in it is a guess, read it first", err=True)


def draft(
    sample: Sample,
    name: str,
    *,
    person: str | None,
    sensitive: str | None,
    numbers: dict[str, int],
) -> str:
    """Return the text of a dcastle.toml for `sample`, checked; `numbers` are those of [privacy]."""
    columns = [
        describe(column, sample.table[column]) for column in sample.table.column_names if column
    ]
    for flag, wanted in (("--person", person), ("--sensitive", sensitive)):
        _require_column(flag, wanted, columns)
    if person is not None and person == sensitive:
        raise click.UsageError(f"--person and --sensitive are both '{person}'")
    if person is None:
        person = find_person([column for column in columns if column.name != sensitive])
    others = [column for column in columns if column.name != person]
    guesses = guess_all(others, sensitive=sensitive)
    if not any(guess.role is Role.QUASI_IDENTIFIER for guess in guesses):
        why = "".join(f"\n  {guess.column.name}: {guess.why}" for guess in guesses)
        raise DataError(f"no column of '{name}' can be a quasi-identifier{why}")

    sections: list[Sequence[str]] = [
        _head(name, sample.table.num_rows),
        _privacy(numbers),
        _person(person),
        _input(sample.delimiter, columns),
        *(_attribute(guess) for guess in guesses),
    ]
    if sensitive is None:
        sections.append(_SENSITIVE_EXAMPLE)
    text = "\n".join("".join(f"{line}\n" for line in section) for section in sections)
    # As overrides the numbers are named by their flags, so a wrong --l is told as --l.
    overrides = {f"privacy.{key}": value for key, value in numbers.items()}
    parse_project(text, file="the draft", read_file=_no_file, overrides=overrides)
    return text


def _require_column(flag: str, name: str | None, columns: Sequence[Column]) -> None:
    if name is None:
        return
    found = {column.name: column for column in columns}
    if name not in found:
        close = difflib.get_close_matches(name, found, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(found)}"
        raise click.UsageError(f"{flag}: there is no column '{name}'; {hint}")
    if not found[name].distinct:
        raise click.UsageError(f"{flag}: column '{name}' has no value that could be used")


def _head(name: str, rows: int) -> list[str]:
    return [
        f"# Drafted by `dcastle init` from {rows:,} rows of {_string(name)}.",
        "# Every role is a guess from names and values: check each one before you publish.",
        "#   quasi-identifier  generalised: what others may know of a person (age, place, job)",
        "#   sensitive         published as it is, with l different values in every class",
        "#   insensitive       published as it is: only what tells nothing about a person",
        "#   identifier        dropped, as are columns that are not named here",
    ]


def _privacy(numbers: dict[str, int]) -> list[str]:
    notes = {
        "k": "a published class holds at least k persons",
        "l": "and at least l values of the sensitive attribute; never more than k",
        "delay_tuples": "a record is decided before this many later ones are accepted",
    }
    pairs = {key: f"{key} = {value}" for key, value in numbers.items()}
    width = max(map(len, pairs.values()))
    return ["[privacy]", *(f"{pairs[key]:{width}}  # {note}" for key, note in notes.items())]


def _person(person: str | None) -> list[str]:
    if person is None:
        return [
            "# Without a person column every record counts as another person. If one person can",
            "# have several records, classes may hold fewer than k persons: name the column.",
            "# [person]",
            '# column = "patient_id"',
        ]
    return ["[person]", f"column = {_string(person)}  # tells persons apart; never published"]


def _input(delimiter: str | None, columns: Sequence[Column]) -> list[str]:
    seen = dict.fromkeys(["", *(word for column in columns for word in column.missing)])
    lines = ["[input]", f"missing = {_array(list(seen))}  # these stand for no value"]
    if delimiter is not None:
        lines.insert(1, f"delimiter = {_string(delimiter)}")
    return lines


def _attribute(guess: Guess) -> list[str]:
    lines = ["[[attribute]]", f"name = {_string(guess.column.name)}"]
    lines.append(f"role = {_string(guess.role)}  # {guess.why}")
    if guess.role is Role.QUASI_IDENTIFIER:
        lines.extend(_quasi_identifier(guess))
    if guess.role is Role.SENSITIVE:
        lines.extend(_sensitive(guess))
    return lines


def _quasi_identifier(guess: Guess) -> Iterator[str]:
    column = guess.column
    yield f"kind = {_string(guess.kind or Kind.CATEGORICAL)}"
    if guess.kind is Kind.NUMERIC and column.bounds:
        yield "# The smallest and largest value seen. Set bounds that are public knowledge instead:"
        yield "# the data's own minimum and maximum each tell about a person."
        yield f"domain = {_domain(*column.bounds)}"
    else:
        yield "# Flat: a value is kept or becomes '*'. A hierarchy in between loses less:"
        yield '# hierarchy = "FILE.csv", one line per value, from the value up to the root.'
        yield f"values = {_array(column.values)}"
    if column.present < column.rows:
        share = (column.rows - column.present) / column.rows
        yield f"# {share:.1%} are missing and those records rejected; to keep them generalised:"
        yield '# policy = "suppress"'


def _sensitive(guess: Guess) -> Iterator[str]:
    values = guess.column.values
    yield f"kind = {_string(guess.kind or Kind.CATEGORICAL)}"
    if guess.kind is Kind.CATEGORICAL and values and "*" not in values:
        yield "# Records with any other value are rejected; without this line all are allowed."
        yield f"values = {_array(values)}"


def _domain(low: float, high: float) -> str:
    # A column with a single value still needs a domain with two ends.
    return f"[{_number(low)}, {_number(high if high > low else low + 1)}]"


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) <= 2**53 else repr(value)


def _array(words: Sequence[str]) -> str:
    """Write a TOML array of strings, on several lines when it is long."""
    items = [_string(word) for word in words]
    line = f"[{', '.join(items)}]"
    if len(line) <= _WIDTH:
        return line
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) + 2 > _WIDTH:
            lines.append("")
        lines[-1] += f" {item}," if lines[-1] else f"  {item},"
    return "\n".join(["[", *lines, "]"])


def _string(text: str) -> str:
    """Write a TOML basic string: JSON's escapes are TOML's, but JSON leaves DEL as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _no_file(name: str) -> str:
    raise FileNotFoundError(f"a draft has no files, but asks for '{name}'")


def _write(output: Path, text: str, *, force: bool) -> None:
    try:
        with output.open("w" if force else "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError as error:
        raise click.UsageError(f"'{output}' exists; --force overwrites it") from error
