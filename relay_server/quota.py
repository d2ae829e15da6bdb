"""Who gives how many persons to a class, from what the sites said they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.exchange import PERSONS_REVEALED_MIN


@dataclass(frozen=True, slots=True)
class Quotas:
    """The number of the radius, and the persons asked of each site (0: none)."""

    radius: int
    persons: dict[int, int]


def share_out(counts: Mapping[int, list[int]], want: int, hold: int) -> Quotas:
    """Take the smallest radius within which the sites have `want` persons, and share them out.

    `counts` are cumulative per radius. All that is within the next smaller radius is taken, and of
    what lies between the two as much as is needed, from each site in proportion. A site that holds
    as many as it was asked to (`hold`) may have more: when all together fall short, those sites
    are asked for the rest.
    """
    radii = len(next(iter(counts.values())))
    totals = [sum(own[j] for own in counts.values()) for j in range(radii)]
    radius = next((j for j in range(radii) if totals[j] >= want), radii - 1)
    inner = {site: own[radius - 1] if radius else 0 for site, own in counts.items()}
    between = {site: own[radius] - inner[site] for site, own in counts.items()}
    missing, available = want - sum(inner.values()), sum(between.values())
    persons, taken, seen = {}, 0, 0
    for site, own in counts.items():
        if missing >= available:
            persons[site] = own[radius]
            continue
        # In proportion, and exact in sum: what rounding leaves goes to the next site.
        seen += between[site]
        share = missing * seen // available
        persons[site] = inner[site] + share - taken
        taken = share
    short = want - sum(persons.values())
    full = [site for site, own in counts.items() if own[radius] >= hold]
    if short > 0 and full:
        for site in full:
            persons[site] += -(-short // len(full))
    return Quotas(radius, {site: _revealable(give, counts[site]) for site, give in persons.items()})


def _revealable(give: int, own: list[int]) -> int:
    """A site gives no box that rests on fewer persons than may be revealed."""
    if give >= PERSONS_REVEALED_MIN:
        return give
    return PERSONS_REVEALED_MIN if give and own[-1] >= PERSONS_REVEALED_MIN else 0
