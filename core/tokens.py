"""Keyed tokens: persons and values that can be counted by those who may not know them.

Whoever has the key turns a person into a token by a keyed hash (SipHash-2-4) under a subkey of its
own for every class, so that tokens of two classes have nothing to do with each other, and neither
have those of a person and a value. Whoever unites sets of tokens counts persons without the key.

A token is a number below 2**range_bits, and a set of them is sorted and Golomb-Rice coded: a small
range makes short sets. Two persons with one token count as one: a class is under-counted and may
need one person more, never one less.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.kernels.tokens import (
    NOT_INCREASING,
    OUT_OF_RANGE,
    TRUNCATED,
    distinct,
    rice_decode,
    rice_encode,
    siphash,
)
from core.varint import encode_numbers

KEY_BYTES: Final = 32
# Arithmetic on tokens must not leave 64 bits.
RANGE_BITS_MAX: Final = 62
# Values of the range per person: a class of k expects k * k / 2 / (512 * k) collisions.
_RANGE_PER_PERSON: Final = 512

_PERSON: Final = b"dcastle-person"
_VALUE: Final = b"dcastle-value"
_COUNT_BYTES_MAX: Final = 9

_WRONG: Final = {
    TRUNCATED: "is cut short",
    OUT_OF_RANGE: "has a token out of range",
    NOT_INCREASING: "is not increasing",
}

Tokens = NDArray[np.uint64]
Codes = NDArray[np.int64]


class TokenKey:
    """The key that all sites share and the relay never has."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a token key has {KEY_BYTES} bytes, not {len(key)}")
        self._key = key

    def persons(self, class_id: int, codes: Codes, range_bits: int) -> Tokens:
        """The tokens of these persons in this class: sorted, each once, below 2**range_bits."""
        return self._tokens(_PERSON, class_id, codes, range_bits)

    def values(self, owner_id: int, codes: Codes, range_bits: int) -> Tokens:
        """The same of sensitive values, of a class or of whatever else has that id."""
        return self._tokens(_VALUE, owner_id, codes, range_bits)

    def _tokens(self, domain: bytes, owner: int, codes: Codes, bits: int) -> Tokens:
        _check_range(bits)
        number = owner.to_bytes(8, "little")
        subkey = hashlib.blake2b(number, digest_size=16, key=self._key, person=domain).digest()
        tokens = np.array(codes, np.int64).view(np.uint64)
        siphash(np.frombuffer(subkey, "<u8"), bits, tokens)
        tokens.sort()
        return tokens[: distinct(tokens)]


def range_bits(k: int) -> int:
    """The range for classes of about k: the smallest power of two that is at least 512 * k.

    A collision only under-counts, by about k / 1024 in a class of k. The tokens of a whole class
    take about 1.4 bytes each; those of a part of it a little more, as they lie further apart.
    """
    return (_RANGE_PER_PERSON * k - 1).bit_length()


# --- sets of tokens


def encode_set(tokens: Tokens, range_bits: int) -> bytes:
    """Code a set of increasing tokens below 2**range_bits; b"" when it is empty.

    The number of tokens (LEB128), the Rice parameter (a byte), and the distances as bits.
    """
    _check_range(range_bits)
    count = len(tokens)
    if not count:
        return b""
    rice = _rice(count, range_bits)
    data = np.zeros((count * (rice + 1) + (1 << range_bits >> rice) + 7) // 8, np.uint8)
    # A copy is of one type for numba, whatever came: contiguous and writable.
    bits = rice_encode(np.array(tokens, np.uint64), range_bits, rice, data)
    if bits < 0:
        raise ValueError(f"a set of {count} tokens {_WRONG[bits]}")
    return encode_numbers((count,)) + bytes((rice,)) + data[: (bits + 7) // 8].tobytes()


def decode_set(data: bytes, range_bits: int, count_max: int) -> Tokens:
    """The set behind encode_set; ValueError for anything that it could not have made.

    `data` may be any bytes: time and memory are linear in their number.
    """
    _check_range(range_bits)
    if not data:
        return np.empty(0, np.uint64)
    count, start = _read_varint(data)
    if not 0 < count <= min(count_max, 1 << range_bits):
        raise ValueError(f"a set of {count} tokens, where 1 to {count_max} may be")
    rice, room = _rice(count, range_bits), 8 * (len(data) - start - 1)
    if start == len(data) or count * (rice + 1) > room:
        raise ValueError(f"a set of {count} tokens in {len(data)} bytes is cut short")
    if data[start] != rice:
        raise ValueError(f"a set of {count} tokens has the Rice parameter {data[start]}")
    stream = np.frombuffer(data, np.uint8, offset=start + 1)
    tokens = np.empty(count, np.uint64)
    bits = rice_decode(stream, range_bits, rice, tokens)
    if bits < 0:
        raise ValueError(f"a set of {count} tokens {_WRONG[bits]}")
    if room - bits >= 8 or (bits & 7 and data[-1] >> (bits & 7)):
        raise ValueError(f"a set of {count} tokens is followed by something else")
    return tokens


def _rice(count: int, range_bits: int) -> int:
    """The best Rice parameter for gaps with the mean 2**range_bits / count.

    The largest p with 2**p <= 0.9624 * mean (Kiely, Selecting the Golomb Parameter in Rice Coding,
    2004; twice the logarithm of the golden ratio). Both ends know it: a set has one code.
    """
    return max(1, (77 << range_bits) // (80 * count)).bit_length() - 1


def _read_varint(data: bytes) -> tuple[int, int]:
    number = 0
    for place, byte in enumerate(data[:_COUNT_BYTES_MAX]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if place and not byte:
                break
            return number, place + 1
    raise ValueError("a set of tokens does not begin with their number")


def _check_range(range_bits: int) -> None:
    if not 1 <= range_bits <= RANGE_BITS_MAX:
        raise ValueError(f"tokens of {range_bits} bits, where 1 to {RANGE_BITS_MAX} may be")


# --- sets of leaves


def encode_bitmap(codes: Codes, leaves: int) -> bytes:
    """Code a set of leaves: bit i % 8 of byte i // 8 for leaf i, without zero bytes at the end."""
    present = np.zeros(leaves, np.bool_)
    if len(codes) and (codes.min() < 0 or codes.max() >= leaves):
        raise ValueError(f"a leaf out of range among {leaves}: {codes.min()} to {codes.max()}")
    present[codes] = True
    return np.packbits(present, bitorder="little").tobytes().rstrip(b"\0")


def decode_bitmap(data: bytes) -> Codes:
    """The leaves behind encode_bitmap, increasing; ValueError where it would have been shorter."""
    if data and not data[-1]:
        raise ValueError("a bitmap ends with a zero byte")
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    return np.flatnonzero(bits).astype(np.int64, copy=False)
