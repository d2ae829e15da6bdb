"""Keyed tokens of 64-bit codes, and the bit stream that a sorted set of them travels in."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.kernels.jit import kernel, leaf

# What is wrong with a set: returned in place of a number of bits.
TRUNCATED: Final = -1
OUT_OF_RANGE: Final = -2
NOT_INCREASING: Final = -3

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

_SIP_0 = np.uint64(0x736F6D6570736575)
_SIP_1 = np.uint64(0x646F72616E646F6D)
_SIP_2 = np.uint64(0x6C7967656E657261)
_SIP_3 = np.uint64(0x7465646279746573)
_SIP_END = np.uint64(0xFF)
# The last block: what is left of the message, here nothing, under its length, here 8.
_SIP_LENGTH = np.uint64(8 << 56)


@kernel
def siphash(key: Words, bits: int, word: Words) -> None:
    """SipHash-2-4 of every word as 8 bytes, little-endian, in its place: its lowest `bits` bits."""
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for i in range(word.shape[0]):
        message = word[i]
        v0, v1, v2, v3 = key[0] ^ _SIP_0, key[1] ^ _SIP_1, key[0] ^ _SIP_2, key[1] ^ _SIP_3
        v0, v1, v2, v3 = _two_rounds(v0, v1, v2, v3 ^ message)
        v0, v1, v2, v3 = _two_rounds(v0 ^ message, v1, v2, v3 ^ _SIP_LENGTH)
        v0, v1, v2, v3 = _two_rounds(v0 ^ _SIP_LENGTH, v1, v2 ^ _SIP_END, v3)
        v0, v1, v2, v3 = _two_rounds(v0, v1, v2, v3)
        word[i] = (v0 ^ v1 ^ v2 ^ v3) & mask


@leaf
def _two_rounds(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    for _ in range(2):
        v0, v2 = v0 + v1, v2 + v3
        v1, v3 = _rotate(v1, 13) ^ v0, _rotate(v3, 16) ^ v2
        v0, v2 = _rotate(v0, 32) + v3, v2 + v1
        v1, v3 = _rotate(v1, 17) ^ v2, _rotate(v3, 21) ^ v0
        v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@leaf
def _rotate(word: np.uint64, left: int) -> np.uint64:
    return (word << np.uint64(left)) | (word >> np.uint64(64 - left))


@kernel
def distinct(word: Words) -> int:
    """Move the distinct ones of sorted words to the front; how many they are."""
    count = 0
    for i in range(word.shape[0]):
        if count == 0 or word[i] != word[count - 1]:
            word[count] = word[i]
            count += 1
    return count


@kernel
def rice_encode(token: Words, bits: int, rice: int, data: Bytes) -> int:
    """Write increasing tokens below 2**bits to `data`, which is zero; how many bits that took.

    Each is its distance from the one before, less one: that over 2**rice as so many zeros and a
    one, and then its lowest `rice` bits, all from the lowest bit of the first byte upwards. `data`
    has room for len(token) * (rice + 1) + 2**(bits - rice) bits.
    """
    limit, shift = np.uint64(1) << np.uint64(bits), np.uint64(rice)
    position, least = 0, np.uint64(0)
    for i in range(token.shape[0]):
        if token[i] >= limit:
            return OUT_OF_RANGE
        if token[i] < least:
            return NOT_INCREASING
        gap = token[i] - least
        least = token[i] + np.uint64(1)
        position += int(np.int64(gap >> shift))
        data[position >> 3] |= np.uint8(1 << (position & 7))
        position += 1
        done = 0
        while done < rice:
            # What fits into the byte at hand.
            room = 8 - (position & 7)
            taken = min(room, rice - done)
            piece = np.int64(gap >> np.uint64(done)) & ((1 << taken) - 1)
            data[position >> 3] |= np.uint8(piece << (position & 7))
            position += taken
            done += taken
    return position


@kernel
def rice_decode(data: Bytes, bits: int, rice: int, token: Words) -> int:
    """Read len(token) tokens from whatever `data` holds; how many bits that took, or what is wrong.

    Reads nothing beyond `data`, in time linear in its length.
    """
    limit, end = np.uint64(1) << np.uint64(bits), data.shape[0] * 8
    quotient_max = np.int64((limit - np.uint64(1)) >> np.uint64(rice))
    position, least = 0, np.uint64(0)
    for i in range(token.shape[0]):
        start = position
        while position < end and (data[position >> 3] >> (position & 7)) & 1 == 0:
            position += 1
        if position + 1 + rice > end:
            return TRUNCATED
        quotient = position - start
        if quotient > quotient_max:
            return OUT_OF_RANGE
        position += 1
        gap, done = np.uint64(quotient) << np.uint64(rice), 0
        while done < rice:
            room = 8 - (position & 7)
            taken = min(room, rice - done)
            piece = (np.int64(data[position >> 3]) >> (position & 7)) & ((1 << taken) - 1)
            gap |= np.uint64(piece) << np.uint64(done)
            position += taken
            done += taken
        if gap >= limit - least:
            return OUT_OF_RANGE
        token[i] = least + gap
        least = token[i] + np.uint64(1)
    return position
