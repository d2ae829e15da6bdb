"""Runs a stream through one way of anonymising it, and measures what comes out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from core.config import Parameters, Project
from core.events import SUPPRESSED
from scripts.simulation.alone import run_alone
from scripts.simulation.exchange import run_exchange
from scripts.simulation.measure import loss_over_time, record_losses, violations
from scripts.simulation.network import Network
from scripts.simulation.outcome import Outcome
from scripts.simulation.result import Mode, RunResult
from scripts.simulation.stream import Dealt


def simulate(
    project: Project,
    dealt: Dealt,
    *,
    mode: Mode,
    network: Network,
    seed: int,
    progress: Callable[[int], None] = lambda done: None,
) -> RunResult:
    """One run. `centralised`: one machine sees everything, with the delay of all sites together."""
    schema, sites = project.schema, len(dealt.names)
    # Virtual time counts records: a limit in seconds has no meaning here.
    parameters = replace(project.parameters, delay_seconds=None)
    started = time.perf_counter()
    match mode:
        case "centralised":
            whole = replace(dealt, site=np.zeros_like(dealt.site), names=("all",))
            wide = replace(parameters, delay_tuples=parameters.delay_tuples * sites)
            outcome = run_alone(schema, wide, whole, seed=seed, progress=progress)
        case "none":
            outcome = run_alone(schema, parameters, dealt, seed=seed, progress=progress)
        case _:
            outcome = run_exchange(
                schema, parameters, dealt, mode=mode, network=network, seed=seed, progress=progress
            )
    seconds = time.perf_counter() - started
    return _measured(project, parameters, dealt, mode, outcome, seconds)


def _measured(
    project: Project,
    parameters: Parameters,
    dealt: Dealt,
    mode: Mode,
    outcome: Outcome,
    seconds: float,
) -> RunResult:
    schema, merged, traffic = project.schema, outcome.merged, outcome.traffic
    losses = record_losses(schema, merged)
    short, sizes = violations(
        dealt, merged, k=parameters.k, l=parameters.l, own_persons=schema.person is None
    )
    site = dealt.site[merged.record]
    by_site = {
        name: float(losses[site == index].mean())
        for index, name in enumerate(dealt.names)
        if (site == index).any()
    }
    sent = traffic.bytes_to_relay
    return RunResult(
        mode=mode,
        sites=len(dealt.names),
        tuples=len(dealt),
        information_loss=float(losses.mean()) if len(losses) else None,
        suppressed=int(np.count_nonzero(merged.row == SUPPRESSED)),
        classes=len(merged.classes),
        violations_k=sum(each.persons < parameters.k for each in short),
        violations_l=sum(each.values < parameters.l for each in short),
        delay_max=outcome.delay_max,
        messages=sum(traffic.messages.values()),
        bytes_to_relay=sent,
        bytes_delivered=traffic.bytes_delivered,
        dataset_bytes=dealt.dataset_bytes,
        overhead_percent=100.0 * sent / dealt.dataset_bytes if dealt.dataset_bytes else 0.0,
        open_clusters_max=outcome.open_clusters_max,
        tuples_per_second=len(dealt) / seconds if seconds > 0 else 0.0,
        merged=merged,
        violations=tuple(short),
        class_sizes=sizes,
        loss_over_time=loss_over_time(merged.record, losses),
        loss_by_site=by_site,
        bytes_by_kind=dict(traffic.bytes_by_kind),
        messages_by_kind=dict(traffic.messages),
        details=outcome.details,
    )
