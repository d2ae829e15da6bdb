"""What the relay counts when it unites what sites told: distinct persons, distinct values."""

from __future__ import annotations

from typing import Final

from core.tokens import decode_set
from relay_server.pb import exchange_pb2 as pb

# Distinct values that one message may name: more is not a sensitive attribute.
VALUES_MAX: Final = 1 << 20


class Union:
    """Persons and sensitive values of several sites, each counted once.

    Persons are tokens of `person_bits` bits; where sites' persons are `disjoint` they are bare
    numbers. Values are tokens of `value_bits` bits, or a bitmap over the leaves.
    """

    __slots__ = (
        "_bitmap",
        "_counts",
        "_disjoint",
        "_person_bits",
        "_persons",
        "_total",
        "_value_bits",
        "_values",
        "_values_as_tokens",
    )

    def __init__(
        self, disjoint: bool, values_as_tokens: bool, person_bits: int, value_bits: int
    ) -> None:
        self._disjoint = disjoint
        self._values_as_tokens = values_as_tokens
        self._person_bits = person_bits
        self._value_bits = value_bits
        self._persons: dict[int, set[int]] = {}  # by salt
        self._total = 0
        self._counts: dict[int, int] = {}
        self._values: set[int] = set()
        self._bitmap = 0

    @property
    def persons(self) -> int:
        """Distinct persons."""
        if self._disjoint:
            return self._total + sum(self._counts.values())
        # Tokens under different salts may be of the same persons: only one of the sets counts.
        return max(map(len, self._persons.values()), default=0)

    @property
    def values(self) -> int:
        """Distinct sensitive values."""
        return len(self._values) if self._values_as_tokens else self._bitmap.bit_count()

    def add(self, persons: pb.Persons, values: bytes, site: int | None = None) -> None:
        """Unite with what a site told; ValueError, and nothing changed, when that is malformed.

        A site that tells more than once says which one it is: its numbers may be about the same
        persons, so that only the largest of them counts. Without `site` every call is another one.
        """
        tokens = self._read_persons(persons)
        named = self._read_values(values)
        if not self._disjoint:
            self._persons.setdefault(persons.salt, set()).update(tokens)
        elif site is None:
            self._total += persons.count
        else:
            self._counts[site] = max(self._counts.get(site, 0), persons.count)
        if self._values_as_tokens:
            self._values.update(named)
        else:
            self._bitmap |= int.from_bytes(values, "little")

    def _read_persons(self, persons: pb.Persons) -> list[int]:
        if self._disjoint:
            if persons.tokens or persons.salt:
                raise ValueError("tokens of persons, where persons are disjoint")
            return []
        tokens: list[int] = decode_set(persons.tokens, self._person_bits, persons.count).tolist()
        if len(tokens) != persons.count:
            raise ValueError(f"{persons.count} persons with {len(tokens)} tokens")
        return tokens

    def _read_values(self, values: bytes) -> list[int]:
        if self._values_as_tokens:
            tokens: list[int] = decode_set(values, self._value_bits, VALUES_MAX).tolist()
            return tokens
        if len(values) * 8 > VALUES_MAX:
            raise ValueError(f"a bitmap of {len(values)} bytes, where {VALUES_MAX // 8} may be")
        if values.endswith(b"\0"):
            raise ValueError("a bitmap that ends with a zero byte")
        return []
