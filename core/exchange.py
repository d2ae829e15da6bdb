"""What all who take part in an exchange agree on."""

from __future__ import annotations

from typing import Final

PROTOCOL_VERSION: Final = 1
# An id that a site makes up is a counter times this, plus the site's index.
SITES_MAX: Final = 1_024
# A site reveals no box and no count that rests on fewer of its persons.
PERSONS_REVEALED_MIN: Final = 3
# Radii travel in 1/65536 of an attribute; this one takes in everything.
RADIUS_SHIFT: Final = 8
RADIUS_ALL: Final = (1 << 31 >> RADIUS_SHIFT) - 1
# Settlements of one site that are under way.
IN_FLIGHT_MAX: Final = 64
# Quasi-identifiers of a schema (core.config has the same limit).
ATTRIBUTES_MAX: Final = 64
