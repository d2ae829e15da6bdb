"""The votes for one class, and what they add up to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.boxes import pack_sparse, unpack_sparse
from core.tokens import decode_set, encode_set
from relay_server.counting import Union
from relay_server.pb import exchange_pb2 as pb
from relay_server.terms import Terms


class Ballot:
    """What each site voted; a site that votes again adds to what it has."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._union: Union = terms.union()
        self._reach: NDArray[np.uint8] = np.zeros(terms.reach_length, np.uint8)
        self.votes: dict[int, tuple[pb.Persons, bytes]] = {}

    @property
    def persons(self) -> int:
        """Distinct persons of all votes."""
        return self._union.persons

    @property
    def values(self) -> int:
        """Distinct sensitive values of all votes."""
        return self._union.values

    @property
    def reach(self) -> bytes:
        """How far they reach together."""
        return pack_sparse(self._reach)

    def all_values(self) -> bytes:
        """The values themselves, as they travel."""
        data = b""
        for _, values in self.votes.values():
            data = self._both_values(data, values)
        return data

    def add(self, site: int, persons: int, tokens: bytes, reach: bytes, values: bytes) -> int:
        """Take in a vote; ValueError when it is none. `persons` counts only without tokens.

        Returns how many persons it has.
        """
        terms = self._terms
        if not terms.disjoint:
            persons = len(decode_set(tokens, terms.person_bits, 1 << terms.person_bits))
        told = pb.Persons(count=persons, tokens=tokens)
        further = unpack_sparse(reach, terms.reach_length)
        self._union.add(told, values)
        np.maximum(self._reach, further, out=self._reach)
        if site in self.votes:
            told, values = self._both(self.votes[site], (told, values))
        self.votes[site] = told, values
        return persons

    def drop(self, site: int) -> None:
        """A site takes its vote back; the others are counted again, the reach may be too large."""
        if self.votes.pop(site, None) is not None:
            self._union = self._terms.union()
            for persons, values in self.votes.values():
                self._union.add(persons, values)

    def _both(
        self, one: tuple[pb.Persons, bytes], other: tuple[pb.Persons, bytes]
    ) -> tuple[pb.Persons, bytes]:
        values = self._both_values(one[1], other[1])
        if self._terms.disjoint:
            return pb.Persons(count=one[0].count + other[0].count), values
        bits = self._terms.person_bits
        tokens = _both_sets(one[0].tokens, other[0].tokens, bits)
        count = len(decode_set(tokens, bits, 1 << bits))
        return pb.Persons(count=count, tokens=tokens), values

    def _both_values(self, one: bytes, other: bytes) -> bytes:
        if self._terms.values_as_tokens:
            return _both_sets(one, other, self._terms.value_bits)
        bitmap = int.from_bytes(one, "little") | int.from_bytes(other, "little")
        return bitmap.to_bytes(max(len(one), len(other)), "little")


def _both_sets(one: bytes, other: bytes, bits: int) -> bytes:
    if not one or not other:
        return one or other
    tokens = np.union1d(decode_set(one, bits, 1 << bits), decode_set(other, bits, 1 << bits))
    return encode_set(tokens, bits)
