"""The generalised loss metric (CASTLE, section 2.2), from published values.

The loss of a generalisation is the mean over its quasi-identifiers of (u - l) / (U - L) for an
interval and (leaves - 1) / (all leaves - 1) for a node. A suppressed record counts 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.events import SUPPRESSED, Classes, Publish
from core.schema import Schema


def class_losses(schema: Schema, classes: Classes) -> NDArray[np.float64]:
    """The loss of every class."""
    total = np.zeros(len(classes))
    for place, attribute in enumerate(schema.numeric):
        assert attribute.domain is not None
        low, high = attribute.domain
        total += (classes.high[:, place] - classes.low[:, place]) / (high - low)
    for place, attribute in enumerate(schema.categorical):
        assert attribute.hierarchy is not None
        total += attribute.hierarchy.loss()[classes.node[:, place]]
    return total / len(schema.quasi_identifiers)


def total_loss(schema: Schema, effect: Publish) -> float:
    """The losses of all records of an effect, added up."""
    losses = np.append(class_losses(schema, effect.classes), 1.0)
    rows = np.where(effect.row == SUPPRESSED, len(effect.classes), effect.row)
    return float(np.bincount(rows, minlength=len(losses)) @ losses)
