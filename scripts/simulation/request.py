"""What a user asks a simulation for, checked: every fault at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from core.config import DELAY_TUPLES_MAX, Project
from core.errors import ConfigurationError, Fault
from core.schema import Schema
from scripts._files import clashes, letters_beside, misfits
from scripts._project import first_attributes, load_project
from scripts.datasets.registry import DataSet
from scripts.simulation.network import Kill, Network
from scripts.simulation.plan import SITES_MAX, SITES_UNLESS_TOLD, Plan
from scripts.simulation.result import Mode
from scripts.simulation.stream import Dealt
from site_node.source import format_of

SEED_MAX: Final = 2**63 - 1
COMPARED: Final[tuple[Mode, ...]] = ("centralised", "none", "paper", "strict")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files of a run; None means none."""

    output: str | None
    trace: str | None
    report: str | None
    letters: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A simulation that can be run; the files are of the last of the modes."""

    project: Project
    plan: Plan
    modes: tuple[Mode, ...]
    network: Network
    files: Files


def read_request(source: DataSet, data: str | None, flags: dict[str, Any], seed: int) -> Request:
    """Make a request of the flags of `dcastle simulate`; ConfigurationError with every fault."""
    faults: list[Fault] = []
    project = _project(source, flags, faults)
    faults += _number_faults(flags, seed)
    files = Files(
        output=flags["output"],
        trace=flags["trace"],
        report=flags["report"],
        letters=flags["dead_letter"] or letters_beside(flags["output"]),
    )
    faults += _file_faults(source, data, files, flags)
    plan = _plan(source, flags, seed, faults)
    kills = _kills(flags["kill"], faults)
    if plan.site_column is None:
        sites = plan.sites or SITES_UNLESS_TOLD
        faults += kill_faults(kills, [f"site-{number}" for number in range(1, sites + 1)])
    if project is None or faults:
        raise ConfigurationError(faults)
    return Request(
        project=project,
        plan=plan,
        modes=COMPARED if flags["compare"] else (project.protocol,),
        network=Network(
            latency_tuples=flags["latency_tuples"],
            drop=flags["drop"],
            duplicate=flags["duplicate"],
            kills=tuple(kills),
        ),
        files=files,
    )


def kill_faults(kills: Sequence[Kill], names: Sequence[str]) -> Iterator[Fault]:
    """Find kills of sites that do not exist."""
    shown = ", ".join(names[:3]) + (f", ... {names[-1]}" if len(names) > 3 else "")
    for kill in kills:
        if kill.site not in names:
            yield Fault(message=f"--kill: there is no site '{kill.site}'; there are {shown}")


def require_stream(request: Request, dealt: Dealt) -> None:
    """Check what only the data can tell: the sites' names and number, and who is at them."""
    names = dealt.names
    faults = list(kill_faults(request.network.kills, names))
    faults += _disjoint_faults(request.project.schema, dealt)
    delay = request.project.parameters.delay_tuples * len(names)
    if "centralised" in request.modes and delay > DELAY_TUPLES_MAX:
        message = f"in one place the delay would be {delay:,} records, over {DELAY_TUPLES_MAX:,}"
        faults.append(Fault(message=message, hint="fewer sites, or a smaller --delay-tuples"))
    if faults:
        raise ConfigurationError(faults)


def _disjoint_faults(schema: Schema, dealt: Dealt) -> Iterator[Fault]:
    """Find out whether persons keep to one site where the schema promises it."""
    if not schema.persons_disjoint or schema.person is None:
        return
    pairs = np.unique(np.stack([dealt.records.person, dealt.site.astype(np.int64)]), axis=1)
    several = int(np.count_nonzero(np.unique(pairs[0], return_counts=True)[1] > 1))
    if several:
        message = f"[person] disjoint is true, but {several:,} persons are at several sites"
        yield Fault(message=message, hint="--deal hash keeps each person at one site")


def _project(source: DataSet, flags: dict[str, Any], faults: list[Fault]) -> Project | None:
    overrides = {
        "privacy.k": flags["k"],
        "privacy.l": flags["l"],
        "privacy.delay_tuples": flags["delay_tuples"],
        "clustering.beta": flags["beta"],
        "clustering.mu": flags["mu"],
        "exchange.protocol": flags["exchange"],
    }
    try:
        project = load_project(flags["config"], source, overrides)
    except ConfigurationError as error:
        faults += error.faults
        return None
    count = flags["attributes"]
    if count is None:
        return project
    most = len(project.schema.quasi_identifiers)
    if not 1 <= count <= most:
        faults.append(Fault(message=f"--attributes is {count}, must be 1 to {most}"))
        return project
    return replace(project, schema=first_attributes(project.schema, count))


def _number_faults(flags: dict[str, Any], seed: int) -> Iterator[Fault]:
    if flags["sites"] is not None and not 1 <= flags["sites"] <= SITES_MAX:
        yield Fault(message=f"--sites is {flags['sites']:,}, must be 1 to {SITES_MAX:,}")
    if flags["latency_tuples"] < 0:
        yield Fault(message=f"--latency-tuples is {flags['latency_tuples']}, must be 0 or more")
    for name in ("drop", "duplicate"):
        # Written so that nan is a fault, too.
        if not 0 <= flags[name] < 1:
            yield Fault(message=f"--{name} is {flags[name]}, must be 0 or more and below 1")
    for name in ("rows", "repeat_to"):
        if flags[name] is not None and flags[name] < 1:
            yield Fault(message=f"--{name.replace('_', '-')} is {flags[name]}, must be 1 or more")
    if not 0 <= seed <= SEED_MAX:
        yield Fault(message=f"--seed is {seed}, must be 0 to {SEED_MAX}")


def _file_faults(
    source: DataSet, data: str | None, files: Files, flags: dict[str, Any]
) -> Iterator[Fault]:
    named = {"DATA": data, "-c": flags["config"], "--output": files.output}
    private = {
        "--trace": files.trace,
        "--report": files.report,
        "--dead-letter": files.letters,
    }
    yield from clashes(named, private)
    output = files.output or ""
    yield from misfits(source, flags["rows"], output, format_of(output))
    if files.trace is not None and flags["repeat_to"] is not None:
        hint = "a row that comes several times has several"
        yield Fault(message="--trace shows one outcome a row: not with --repeat-to", hint=hint)
    other = flags["exchange"] not in (None, "strict")
    if flags["compare"] and other and (files.output or files.trace):
        message = f"with --compare the files are of the strict run, not of {flags['exchange']}"
        yield Fault(message=message, hint="leave out --compare or --exchange")


def _plan(source: DataSet, flags: dict[str, Any], seed: int, faults: list[Fault]) -> Plan:
    column, way = flags["site_column"], flags["deal"]
    if column is not None and way is not None:
        faults.append(Fault(message="--deal and --site-column are two ways to say one thing"))
    if column is None and way is None and source.entry is not None:
        column = source.entry.site_column
    return Plan(
        sites=flags["sites"],
        site_column=column,
        way=way or "round-robin",
        rows=flags["rows"],
        repeat_to=flags["repeat_to"],
        seed=seed,
    )


def _kills(texts: Sequence[str], faults: list[Fault]) -> list[Kill]:
    kills: dict[str, Kill] = {}
    for text in texts:
        site, _, position = text.rpartition("@")
        if not site or not (position.isascii() and position.isdigit()):
            hint = "the site's name, then how many of its records it lives to take in"
            faults.append(Fault(message=f"--kill is '{text}', must be SITE@POSITION", hint=hint))
        elif site in kills:
            faults.append(Fault(message=f"--kill: '{site}' can die only once"))
        else:
            kills[site] = Kill(site=site, position=int(position))
    return list(kills.values())
