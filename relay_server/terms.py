"""What all sites of an exchange have in common, as far as the relay needs to know it."""

from __future__ import annotations

from dataclasses import dataclass

from core.tokens import range_bits
from relay_server.counting import Union


@dataclass(frozen=True, slots=True)
class Policy:
    """What is asked of a class: so many distinct persons and sensitive values."""

    k: int
    l: int


@dataclass(frozen=True, slots=True)
class Terms:
    """The policy of the exchange, and the shape of what is told."""

    policy: Policy
    disjoint: bool
    values_as_tokens: bool
    numeric: int
    categorical: int

    @property
    def box_bytes(self) -> int:
        """Bytes of a box."""
        return 2 * (self.numeric + self.categorical)

    @property
    def reach_length(self) -> int:
        """Numbers of a reach."""
        return 2 * self.numeric + self.categorical

    @property
    def person_bits(self) -> int:
        """Bits of a person's token."""
        return range_bits(self.policy.k)

    @property
    def value_bits(self) -> int:
        """Bits of a value's token."""
        return range_bits(self.policy.l)

    def union(self) -> Union:
        """An empty union of persons and values."""
        return Union(self.disjoint, self.values_as_tokens, self.person_bits, self.value_bits)
