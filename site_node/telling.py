"""How a site tells of persons and sensitive values without naming them.

Persons are a number where no person is at two sites, otherwise keyed tokens; values are a bitmap
over the leaves, or tokens where there is no hierarchy. Tokens are made under the id of the class or
cluster that they are about, so that two of them have nothing in common.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.schema import Schema
from core.tokens import (
    TokenKey,
    decode_bitmap,
    decode_set,
    encode_bitmap,
    encode_set,
    range_bits,
)
from relay_server.pb import exchange_pb2 as pb

# Ids are far smaller than this: the salt has the bits above.
SALT_SHIFT: Final = 56
SALTS_MAX: Final = 64

Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Teller:
    """Persons and values of one schema as they travel."""

    def __init__(self, schema: Schema, *, k: int, l: int, key: TokenKey) -> None:
        sensitive = schema.sensitive
        tree = sensitive.hierarchy if sensitive is not None else None
        self._key = key
        self._person_bits = range_bits(k)
        self._value_bits = range_bits(l)
        self._leaves = tree.leaf_count if tree is not None else None
        self._no_values = sensitive is None
        self._own_person = schema.person is None  # each record is one
        self.disjoint = schema.person is None or schema.persons_disjoint
        self.values_as_tokens = sensitive is not None and tree is None

    def persons(self, owner: int, codes: Codes) -> pb.Persons:
        """The persons, each once."""
        if self._own_person:
            return pb.Persons(count=len(codes))
        if self.disjoint:
            return pb.Persons(count=len(np.unique(codes)))
        tokens = self._key.persons(owner, codes, self._person_bits)
        return pb.Persons(count=len(tokens), tokens=encode_set(tokens, self._person_bits))

    def proof(self, owner: int, codes: Codes) -> pb.Persons:
        """The persons of a class that this site proves alone: no two of them share a token."""
        told = self.persons(owner, codes)
        if self.disjoint:
            return told
        distinct = len(np.unique(codes))
        for salt in range(1, SALTS_MAX):
            if told.count == distinct:
                break
            salted = self._key.persons(owner | salt << SALT_SHIFT, codes, self._person_bits)
            if len(salted) > told.count:
                tokens = encode_set(salted, self._person_bits)
                told = pb.Persons(count=len(salted), tokens=tokens, salt=salt)
        return told

    def known_values(self, owner: int, data: bytes) -> Callable[[Codes], Flags]:
        """Tells which values are not among those; ValueError when they are malformed."""
        if self._leaves is not None:
            known = decode_bitmap(data)
            return lambda codes: ~np.isin(codes, known)
        bits = self._value_bits
        told = decode_set(data, bits, 1 << bits)

        def is_new(codes: Codes) -> Flags:
            each = [self._key.values(owner, codes[i : i + 1], bits)[0] for i in range(len(codes))]
            return ~np.isin(each, told)

        return is_new

    def values(self, owner: int, codes: Codes) -> bytes:
        """The distinct sensitive values."""
        if self._no_values:
            return b""
        if self._leaves is not None:
            return encode_bitmap(codes, self._leaves)
        return encode_set(self._key.values(owner, codes, self._value_bits), self._value_bits)
