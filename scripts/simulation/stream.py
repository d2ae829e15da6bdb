"""What a simulation is run on: one stream of records, each at its site."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.events import Records


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Dealt:
    """Records in the order of their arrival at any site. The virtual clock counts them.

    A record is known by its index in here; `row` is its number among the input's data rows.
    """

    records: Records
    site: NDArray[np.int32]  # [n] index into `names`
    row: NDArray[np.int64]  # [n]
    names: tuple[str, ...]
    dataset_bytes: int  # of the input rows, as CSV

    def __len__(self) -> int:
        return len(self.site)


def records_of(dealt: Dealt, index: NDArray[np.int64]) -> Records:
    """Some of the records, as a stream of their own."""
    records = dealt.records
    return Records(
        code=np.ascontiguousarray(records.code[index]),
        raw=np.ascontiguousarray(records.raw[index]),
        person=records.person[index],
        value=records.value[index],
        general=records.general[index],
    )
