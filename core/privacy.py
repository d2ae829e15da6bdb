"""The gate: nothing is published before it has been counted once more, by other code.

It raises, always: `python -O` strips asserts, and a promise that an option can switch off is none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.errors import PrivacyBreachError
from core.kernels.gate import BY_PERSON, BY_VALUE, first_outside, recount
from core.kernels.layout import FORMED_HERE, Ints, Records, State, power_of_two

Flags = NDArray[np.bool_]


class Gate:
    """Counts the persons and values of every class that a step formed, and where tuples lie."""

    def __init__(self, state: State) -> None:
        slots = len(state.out.decision)
        self._member = np.zeros(power_of_two(2 * slots), np.int32)
        self._persons = np.zeros(len(state.out.class_id), np.int32)
        self._values = np.zeros(len(state.out.class_id), np.int32)

    def check(self, state: State) -> None:
        """Raise PrivacyBreachError unless everything the step decided may be published."""
        decided, classes = int(state.out.made[0]), int(state.out.made[1])
        decision, rules = state.out.decision[:decided], state.rules
        member = self._member[: power_of_two(2 * decided + 2)]
        fresh = state.out.fresh[:classes] == FORMED_HERE
        if fresh.any():
            self._count(state, decision, member, fresh)
        stray = int(first_outside(rules, state.trees, state.window, decision, state.out))
        if stray >= 0:
            raise PrivacyBreachError(
                f"the record at position {decision['position'][stray]} lies outside the class "
                f"{state.out.class_id[decision['row'][stray]]} it was decided into; "
                "nothing of this step was published"
            )

    def _count(self, state: State, decision: Records, member: Ints, fresh: Flags) -> None:
        """Count the persons and values of the classes that were formed here."""
        rules, item, classes = state.rules, state.window.item, len(fresh)
        persons = self._persons[:classes]
        recount(rules, item, decision, BY_PERSON, rules.k, member, persons)
        self._require(state, fresh & (persons < rules.k), persons, f"k={rules.k} persons")
        if rules.l > 1:
            values = self._values[:classes]
            recount(rules, item, decision, BY_VALUE, rules.l, member, values)
            self._require(state, fresh & (values < rules.l), values, f"l={rules.l} values")

    @staticmethod
    def _require(state: State, short: Flags, have: object, need: str) -> None:
        if not short.any():
            return
        row = int(np.argmax(short))
        count = np.asarray(have)[row]
        raise PrivacyBreachError(
            f"class {state.out.class_id[row]} has {count} of {need}; "
            "nothing of this step was published"
        )
