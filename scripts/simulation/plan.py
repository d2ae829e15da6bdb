"""How the rows of an input get to sites: the plan, before anything is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

SITES_MAX: Final = 1_024
SITES_UNLESS_TOLD: Final = 8

Way = Literal["round-robin", "hash"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the input's rows get to sites.

    sites        how many; None: as many as the column has values, else 8
    site_column  the column that says which; None: dealt
    way          how they are dealt
    rows         of a named set, only so many
    repeat_to    the accepted rows again and again, each time in a new order, until there are so
                 many; without a person column a row that comes again is another person
    seed         of these orders
    """

    sites: int | None = None
    site_column: str | None = None
    way: Way = "round-robin"
    rows: int | None = None
    repeat_to: int | None = None
    seed: int = 0
