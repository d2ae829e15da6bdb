"""Sets of tokens: whatever is coded comes back, and whatever comes is coded or refused."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from core.tokens import (
    RANGE_BITS_MAX,
    TokenKey,
    decode_bitmap,
    decode_set,
    encode_bitmap,
    encode_set,
)

KEY = TokenKey(bytes(32))


@st.composite
def sets(draw: st.DrawFn) -> tuple[int, list[int]]:
    """A range, and some of its tokens: everywhere, or close together."""
    bits = draw(st.integers(1, RANGE_BITS_MAX))
    top = draw(st.sampled_from([2**bits, min(2**bits, 300)])) - 1
    return bits, sorted(draw(st.sets(st.integers(0, top), max_size=400)))


@given(sets())
def test_a_set_comes_back_as_it_was(made: tuple[int, list[int]]) -> None:
    bits, tokens = made
    data = encode_set(np.array(tokens, np.uint64), bits)
    assert decode_set(data, bits, len(tokens)).tolist() == tokens


def refused_or_the_same(data: bytes, bits: int, count_max: int = 2**62) -> None:
    """Either the bytes are no set, or they are the one code of the set that they stand for."""
    try:
        tokens = decode_set(data, bits, count_max)
    except ValueError:
        return
    assert encode_set(tokens, bits) == data


@given(st.binary(max_size=200), st.integers(1, RANGE_BITS_MAX))
@example(b"\x02\x3d" + b"\xff" * 20, 62)
@example(b"\x01\x3d" + b"\x00" * 30, 62)
def test_any_bytes_are_refused_or_have_one_meaning(data: bytes, bits: int) -> None:
    refused_or_the_same(data, bits)


@given(sets(), st.data())
def test_a_damaged_set_is_refused_or_has_one_meaning(
    made: tuple[int, list[int]], data: st.DataObject
) -> None:
    bits, tokens = made
    whole = bytearray(encode_set(np.array(tokens, np.uint64), bits))
    for _ in range(data.draw(st.integers(1, 3))):
        if whole:
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    refused_or_the_same(bytes(whole), bits)
    refused_or_the_same(bytes(whole[:cut]), bits)
    refused_or_the_same(bytes(whole) + data.draw(st.binary(min_size=1, max_size=3)), bits)


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50),
    st.integers(0, 2**64 - 1),
    st.integers(1, RANGE_BITS_MAX),
)
def test_tokens_of_any_codes_are_a_set(codes: list[int], class_id: int, bits: int) -> None:
    tokens = KEY.persons(class_id, np.array(codes, np.int64), bits)
    assert len(tokens) <= len(set(codes))
    data = encode_set(tokens, bits)
    assert (decode_set(data, bits, len(codes)) == tokens).all()


@given(st.sets(st.integers(0, 300)))
def test_a_bitmap_comes_back_as_it_was(leaves: set[int]) -> None:
    data = encode_bitmap(np.array(list(leaves), np.int64), 301)
    assert decode_bitmap(data).tolist() == sorted(leaves)


@given(st.binary(max_size=40))
def test_any_bytes_are_no_bitmap_or_have_one_meaning(data: bytes) -> None:
    try:
        leaves = decode_bitmap(data)
    except ValueError:
        return
    assert encode_bitmap(leaves, 8 * 40) == data
