"""Sensitive values of the `paper` exchange: what is sent of them, and how they are counted.

Section 4.2 sends an array of the distinct values: a bitmap over the leaves where there is a
hierarchy, and otherwise the values themselves. The second part is not reproduced: a raw value never
leaves a site here, so keyed tokens are sent in its place, under the id of the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from core.schema import Schema
from core.tokens import (
    TokenKey,
    decode_bitmap,
    decode_set,
    encode_bitmap,
    encode_set,
    range_bits,
)

# Values that other sites told of: sets of leaves or of tokens. Tokens can be compared only under
# the same id, and a merged cluster has tokens of several; leaves are all under this one.
SharedValues = Mapping[int, frozenset[int]]
_LEAVES: Final = 0
NO_VALUES: Final[SharedValues] = {}


class SensitiveValues:
    """The sensitive attribute of one schema; without one there are no values and l is 1."""

    def __init__(self, schema: Schema, *, l: int, key: TokenKey) -> None:
        sensitive = schema.sensitive
        self._absent = sensitive is None
        tree = sensitive.hierarchy if sensitive is not None else None
        self._leaves = tree.leaf_count if tree is not None else None
        self._l = l
        self._key = key
        self._bits = range_bits(l)

    def diverse(self, local: Collection[int], shared: SharedValues) -> bool:
        """Whether C.diversity >= l: the values of local tuples and the shared ones, each once."""
        return self._l <= 1 or len(local) >= self._l or self.diversity(local, shared) >= self._l

    def diversity(self, local: Collection[int], shared: SharedValues) -> int:
        """C.diversity (section 4.2).

        Tokens under different ids cannot be compared: of several sets the one that makes most
        counts, so that a value is never counted twice.
        """
        unions = (
            len(seen.union(self._marks(owner, list(local)))) for owner, seen in shared.items()
        )
        return max(len(local), *unions) if shared else len(local)

    @staticmethod
    def joined(shared: SharedValues, other: SharedValues) -> SharedValues:
        """Both together."""
        if not other:
            return shared
        none: frozenset[int] = frozenset()
        ids = dict.fromkeys([*shared, *other])
        return {owner: shared.get(owner, none) | other.get(owner, none) for owner in ids}

    def encode(self, cluster_id: int, local: Collection[int], shared: SharedValues) -> bytes:
        """Local and shared values as they are sent; tokens under another id are left out."""
        if self._absent:
            return b""
        owner = cluster_id if self._leaves is None else _LEAVES
        told = shared.get(owner, frozenset())
        marks = sorted(told.union(self._marks(owner, list(local))))
        if self._leaves is not None:
            return encode_bitmap(np.array(marks, np.int64), self._leaves)
        return encode_set(np.array(marks, np.uint64), self._bits)

    def decode(self, cluster_id: int, data: bytes) -> SharedValues:
        """What another site sent; ValueError when it cannot be that."""
        if self._absent:
            if data:
                raise ValueError("values of an attribute that is not there")
            return NO_VALUES
        if self._leaves is None:
            tokens = decode_set(data, self._bits, 1 << self._bits)
            return {cluster_id: frozenset(tokens.tolist())}
        leaves = decode_bitmap(data).tolist()
        if leaves and leaves[-1] >= self._leaves:
            raise ValueError(f"leaf {leaves[-1]} of {self._leaves}")
        return {_LEAVES: frozenset(leaves)}

    def _marks(self, owner: int, codes: list[int]) -> list[int]:
        """Local values as the shared ones of this id are written."""
        if self._leaves is not None or not codes:
            return codes
        tokens: list[int] = self._key.values(owner, np.array(codes, np.int64), self._bits).tolist()
        return tokens
