"""The gate: whatever the kernels get wrong, nothing of it is published.

Bugs are planted between the kernels and the machine; the machine has to find every one of them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core.machine
from core.config import Parameters
from core.errors import PrivacyBreachError
from core.events import Publish, Records, RecordsArrived, StreamEnded, Ticked
from core.hierarchy import flat
from core.kernels.layout import GRID, State
from core.machine import Machine
from core.schema import Attribute, Kind, Role, Schema

REPOSITORY = Path(__file__).resolve().parents[2]
QI = Role.QUASI_IDENTIFIER
AGE = Attribute(name="age", role=QI, kind=Kind.NUMERIC, domain=(0.0, 128.0))
SEX = Attribute(name="sex", role=QI, kind=Kind.CATEGORICAL, hierarchy=flat(["f", "m"]))
SCHEMA = Schema(attributes=(AGE, SEX), person="pid")

Bug = Callable[[State], None]


def records(*rows: tuple[float, int, int, int]) -> RecordsArrived:
    """Rows of age, sex, person, value."""
    age, sex, person, value = np.array(rows, np.float64).T
    return RecordsArrived(
        Records(
            code=np.stack([np.rint(age / 128 * GRID), sex], axis=1).astype(np.int32),
            raw=age[:, None].copy(),
            person=person.astype(np.int64),
            value=value.astype(np.int64),
            general=np.zeros(len(rows), np.bool_),
        )
    )


def machine(**parameters: Any) -> Machine:
    return Machine(SCHEMA, Parameters(**{"k": 3, "delay_tuples": 50, **parameters}), seed=1)


def plant(monkeypatch: pytest.MonkeyPatch, bug: Bug) -> None:
    """Let the kernels decide, and then spoil what they decided."""
    advance = core.machine.advance

    def spoiled(state: State, *arguments: Any) -> None:
        advance(state, *arguments)
        bug(state)

    monkeypatch.setattr(core.machine, "advance", spoiled)


def plant_rules(monkeypatch: pytest.MonkeyPatch, **rules: int) -> None:
    """Let the kernels follow other rules than the machine was given."""
    advance = core.machine.advance

    def misled(state: State, *arguments: Any) -> None:
        advance(state._replace(rules=state.rules._replace(**rules)), *arguments)

    monkeypatch.setattr(core.machine, "advance", misled)


@pytest.mark.parametrize("split", ["cut", "castle"])
def test_a_class_of_one_person_less_than_k_is_stopped(
    monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    plant_rules(monkeypatch, k=2)
    site = machine(split=split)
    site.step(records((30, 0, 1, 0), (30, 0, 2, 0)))
    with pytest.raises(PrivacyBreachError, match="class 0 has 2 of k=3 persons"):
        site.step(StreamEnded())


def test_a_short_part_among_sound_ones_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_rules(monkeypatch, k=2)
    site = machine()
    far = [(90, 1, person, 0) for person in (3, 4, 5)]
    site.step(records(*far, (30, 0, 1, 0), (30, 0, 2, 0)))
    with pytest.raises(PrivacyBreachError, match="class 1 has 2 of k=3 persons"):
        site.step(StreamEnded())


def test_tuples_counted_as_persons_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_rules(monkeypatch, count_persons=False)
    site = machine()
    site.step(records((30, 0, 1, 0), (30, 0, 2, 0), (30, 0, 2, 0)))
    with pytest.raises(PrivacyBreachError, match="class 0 has 2 of k=3 persons"):
        site.step(StreamEnded())


@pytest.mark.parametrize("split", ["cut", "castle"])
def test_a_class_of_one_value_less_than_l_is_stopped(
    monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    plant_rules(monkeypatch, l=1)
    site = machine(l=2, split=split)
    site.step(records(*[(30, 0, person, 7) for person in range(3)]))
    with pytest.raises(PrivacyBreachError, match="class 0 has 1 of l=2 values"):
        site.step(StreamEnded())


def test_a_tuple_moved_to_another_class_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def move(state: State) -> None:
        state.out.decision["row"][0] = 1

    plant(monkeypatch, move)
    site = machine()
    ages = (30, 30, 30, 30, 90, 90, 90)
    site.step(records(*[(age, 0, person, 0) for person, age in enumerate(ages)]))
    with pytest.raises(PrivacyBreachError, match="position 0 lies outside the class 1"):
        site.step(StreamEnded())


def narrow_above(state: State) -> None:
    state.out.high[0, 0] = np.nextafter(state.out.high[0, 0], -np.inf)


def narrow_below(state: State) -> None:
    state.out.low[0, 0] = np.nextafter(state.out.low[0, 0], np.inf)


def forget_bounds(state: State) -> None:
    state.out.low[0, 0] = np.nan


def narrow_node(state: State) -> None:
    state.out.node[0, 0] = 0


@pytest.mark.parametrize("bug", [narrow_above, narrow_below, forget_bounds, narrow_node])
def test_a_class_that_does_not_cover_a_tuple_is_stopped(
    monkeypatch: pytest.MonkeyPatch, bug: Bug
) -> None:
    plant(monkeypatch, bug)
    site = machine(beta=1)
    site.step(records((30, 0, 1, 0), (40, 1, 2, 0), (50, 0, 3, 0)))
    with pytest.raises(PrivacyBreachError, match=r"position \d lies outside the class 0"):
        site.step(StreamEnded())


def halted(monkeypatch: pytest.MonkeyPatch, **parameters: Any) -> Machine:
    """A machine that the gate has stopped, with sound kernels again."""
    site = machine(**parameters)
    site.step(records((30, 0, 1, 0), (30, 0, 2, 0)))
    with monkeypatch.context() as patch:
        plant_rules(patch, k=2)
        with pytest.raises(PrivacyBreachError):
            site.step(StreamEnded())
    return site


@pytest.mark.parametrize("order", ["released", "input"])
@pytest.mark.parametrize(
    "event", [records((30, 0, 3, 0)), Ticked(0), StreamEnded()], ids=["arrival", "tick", "end"]
)
def test_a_machine_that_was_stopped_stays_stopped(
    monkeypatch: pytest.MonkeyPatch, event: Any, order: str
) -> None:
    site = halted(monkeypatch, order=order)
    for _ in range(2):
        with pytest.raises(PrivacyBreachError, match="class 0 has 2 of k=3 persons"):
            site.step(event)


def test_sound_decisions_pass() -> None:
    site = machine(l=2)
    site.step(records((30, 0, 1, 0), (40, 1, 2, 1), (50, 0, 3, 0)))
    (effect,) = site.step(StreamEnded())
    assert isinstance(effect, Publish)
    assert len(effect) == 3


OPTIMISED = """
import numpy as np
import core.machine
from core.config import Parameters
from core.errors import PrivacyBreachError
from core.events import Records, RecordsArrived, StreamEnded
from core.schema import Attribute, Kind, Role, Schema

advance = core.machine.advance
def misled(state, *rest):
    advance(state._replace(rules=state.rules._replace(k=2)), *rest)
core.machine.advance = misled

age = Attribute(name="a", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, domain=(0.0, 1.0))
schema = Schema(attributes=(age,), person="pid")
site = core.machine.Machine(schema, Parameters(k=3, delay_tuples=9), seed=1)
site.step(RecordsArrived(Records(
    code=np.zeros((2, 1), np.int32), raw=np.zeros((2, 1)), person=np.arange(2),
    value=np.zeros(2, np.int64), general=np.zeros(2, np.bool_))))
try:
    print("debug" if __debug__ else "optimised", site.step(StreamEnded()))
except PrivacyBreachError as breach:
    print("debug" if __debug__ else "optimised", breach)
"""


def test_the_gate_also_raises_under_python_dash_o() -> None:
    ended = subprocess.run(
        [sys.executable, "-O", "-c", OPTIMISED],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert ended.stdout.startswith("optimised class 0 has 2 of k=3 persons")
