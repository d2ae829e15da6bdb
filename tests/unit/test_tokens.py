"""Tokens: what they hide, what they count, and the bytes they travel in."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import numpy as np
import pytest

from core.kernels.tokens import siphash
from core.tokens import (
    TokenKey,
    decode_bitmap,
    decode_set,
    encode_bitmap,
    encode_set,
    range_bits,
)

KEY = TokenKey(bytes(range(32)))
PEOPLE = np.arange(10_000, dtype=np.int64)

# SipHash-2-4 of b"", 00, 00 01, ... under the key 00 01 ... 0f (Aumasson and Bernstein, vectors.h).
VECTORS = [
    0x726FDB47DD0E0E31, 0x74F839C593DC67FD, 0x0D6C8009D9A94F5A, 0x85676696D7FB7E2D,
    0xCF2794E0277187B7, 0x18765564CD99A68D, 0xCBC9466E58FEE3CE, 0xAB0200F58B01D137,
    0x93F5F5799A932462, 0x9E0082DF0BA9E4B0, 0x7A5DBBC594DDB9F3, 0xF4B32F46226BADA7,
    0x751E8FBC860EE5FB, 0x14EA5627C0843D90, 0xF723CA908E7AF2EE, 0xA129CA6149BE45E5,
]  # fmt: skip
REFERENCE_KEY = bytes(range(16))


def plain_siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4 as its paper writes it, for messages of any length."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]

    def rotate(word: int, left: int) -> int:
        return (word << left | word >> (64 - left)) % 2**64

    def rounds(count: int) -> None:
        for _ in range(count):
            for a, b, left, turned in ((0, 1, 13, 0), (2, 3, 16, None), (0, 3, 21, None)):
                v[a] = (v[a] + v[b]) % 2**64
                v[b] = rotate(v[b], left) ^ v[a]
                if turned is not None:
                    v[turned] = rotate(v[turned], 32)
            v[2] = (v[2] + v[1]) % 2**64
            v[1] = rotate(v[1], 17) ^ v[2]
            v[2] = rotate(v[2], 32)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes((len(message) % 256,))
    for i in range(0, len(padded), 8):
        block = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= block
        rounds(2)
        v[0] ^= block
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def hashed(key: bytes, words: list[int], bits: int) -> list[int]:
    out = np.array(words, np.uint64)
    siphash(np.frombuffer(key, "<u8"), bits, out)
    return [int(word) for word in out]


# --- the hash


def test_the_plain_twin_gives_the_published_vectors() -> None:
    assert [plain_siphash(REFERENCE_KEY, bytes(range(i))) for i in range(16)] == VECTORS


def test_the_kernel_gives_the_published_vector_of_eight_bytes() -> None:
    message = int.from_bytes(bytes(range(8)), "little")
    assert hashed(REFERENCE_KEY, [message], 62) == [VECTORS[8] % 2**62]
    assert hashed(REFERENCE_KEY, [message], 16) == [VECTORS[8] % 2**16]


def test_the_kernel_hashes_as_the_plain_twin_does() -> None:
    words = [0, 1, 2**64 - 1, 2**63, *(7**i % 2**64 for i in range(200))]
    for key in (bytes(16), bytes(range(100, 116)), b"\xff" * 16):
        plain = [plain_siphash(key, word.to_bytes(8, "little")) % 2**62 for word in words]
        assert hashed(key, words, 62) == plain


# --- tokens


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_key_of_another_length_is_refused_by_its_length(length: int) -> None:
    with pytest.raises(ValueError, match=f"32 bytes, not {length}"):
        TokenKey(bytes(length))


def test_a_key_does_not_show_itself() -> None:
    assert "secret" not in repr(TokenKey(b"secret" + bytes(26)))


@pytest.mark.parametrize(
    ("tokens", "domain"), [(KEY.persons, b"dcastle-person"), (KEY.values, b"dcastle-value")]
)
def test_a_token_is_the_hash_of_a_code_under_the_subkey_of_its_domain_and_class(
    tokens: Callable[[int, np.ndarray, int], np.ndarray], domain: bytes
) -> None:
    subkey = blake2b(
        (17).to_bytes(8, "little"), digest_size=16, key=bytes(range(32)), person=domain
    ).digest()
    plain = [plain_siphash(subkey, code.to_bytes(8, "little")) % 2**16 for code in range(100)]
    assert tokens(17, PEOPLE[:100], 16).tolist() == sorted(set(plain))


def test_tokens_are_those_of_every_earlier_version() -> None:
    codes = np.array([1, -1, 2**62], np.int64)
    assert KEY.persons(17, codes, 16).tolist() == [20421, 58451, 58666]
    assert KEY.values(17, codes, 16).tolist() == [38857, 57856, 62481]


def test_tokens_are_sorted_and_distinct_and_in_range() -> None:
    tokens = KEY.persons(3, np.concatenate([PEOPLE, PEOPLE[::-1]]), 12)
    assert tokens.dtype == np.uint64
    assert (np.diff(tokens.astype(np.int64)) > 0).all()
    assert tokens.max() < 2**12


def test_the_order_and_the_repetition_of_persons_do_not_matter() -> None:
    mixed = np.concatenate([PEOPLE[50:100], PEOPLE[:60]])
    assert (KEY.persons(3, PEOPLE[:100], 20) == KEY.persons(3, mixed, 20)).all()


def test_the_codes_of_the_caller_are_left_alone() -> None:
    codes = np.arange(5, dtype=np.int64)
    codes.flags.writeable = False
    assert len(KEY.persons(3, codes[::2], 20)) == 3
    assert codes.tolist() == [0, 1, 2, 3, 4]


def test_nobody_has_no_tokens() -> None:
    assert len(KEY.persons(3, PEOPLE[:0], 20)) == 0


def matches(one: np.ndarray, other: np.ndarray) -> int:
    return len(np.intersect1d(one, other))


def test_two_sites_with_one_key_give_a_person_one_token() -> None:
    here, there = KEY.persons(8, PEOPLE[:600], 40), KEY.persons(8, PEOPLE[400:], 40)
    assert matches(here, there) == 200


def test_tokens_of_one_person_in_two_classes_do_not_match_beyond_chance() -> None:
    # 100 pairs of classes of 1,000 persons in 2**20: 95 matches by chance, standard deviation 10.
    found = [
        matches(KEY.persons(i, PEOPLE[:1000], 20), KEY.persons(i + 1, PEOPLE[:1000], 20))
        for i in range(100)
    ]
    assert 45 < sum(found) < 145


def test_tokens_of_a_person_and_of_a_value_do_not_match_beyond_chance() -> None:
    assert matches(KEY.persons(8, PEOPLE, 60), KEY.values(8, PEOPLE, 60)) == 0


def test_with_the_wrong_key_nothing_matches() -> None:
    wrong = TokenKey(bytes(range(31)) + b"\xff")
    assert matches(KEY.persons(8, PEOPLE, 60), wrong.persons(8, PEOPLE, 60)) == 0


def test_tokens_look_uniform() -> None:
    # Consecutive codes, 64 classes: 640,000 tokens in 256 cells, by their high and their low bits.
    for shift in (0, 32):
        cells = np.zeros(256)
        for i in range(64):
            tokens = KEY.persons(i, PEOPLE, 40) >> np.uint64(shift) & np.uint64(0xFF)
            cells += np.bincount(tokens.astype(np.int64), minlength=256)
        expected = cells.sum() / 256
        chi_squared = ((cells - expected) ** 2 / expected).sum()
        # 255 degrees of freedom: mean 255, standard deviation 22.6.
        assert 165 < chi_squared < 370


def test_every_bit_of_a_token_is_as_often_one_as_zero() -> None:
    tokens = KEY.persons(5, PEOPLE, 40)
    for bit in range(40):
        assert abs(int((tokens >> np.uint64(bit) & np.uint64(1)).sum()) - 5000) < 250


# --- the range


@pytest.mark.parametrize(("k", "bits"), [(1, 9), (2, 10), (3, 11), (5, 12), (100, 16), (128, 16)])
def test_the_range_is_the_smallest_power_of_two_of_at_least_512_k(k: int, bits: int) -> None:
    assert range_bits(k) == bits
    assert 2 ** (bits - 1) < 512 * k <= 2**bits


def test_a_class_is_under_counted_by_about_one_in_a_thousand() -> None:
    k, classes = 128, 1000
    persons = [len(KEY.persons(i, PEOPLE[:k], range_bits(k))) for i in range(classes)]
    missing = k * classes - sum(persons)
    # k / 1024 expected in each class: 125 in all, standard deviation 11.
    assert 70 < missing < 180


@pytest.mark.parametrize(("k", "bytes_per_person"), [(100, 1.45), (1000, 1.4), (10_000, 1.45)])
def test_the_set_of_a_whole_class_takes_about_1_4_bytes_a_person(
    k: int, bytes_per_person: float
) -> None:
    bits = range_bits(k)
    assert len(encode_set(KEY.persons(1, PEOPLE[:k], bits), bits)) < bytes_per_person * k


@pytest.mark.parametrize("bits", [0, 63, 64, -1])
def test_a_range_that_64_bits_cannot_hold_is_refused(bits: int) -> None:
    with pytest.raises(ValueError, match=f"tokens of {bits} bits"):
        KEY.persons(1, PEOPLE, bits)
    with pytest.raises(ValueError, match=f"tokens of {bits} bits"):
        encode_set(PEOPLE.astype(np.uint64), bits)
    with pytest.raises(ValueError, match=f"tokens of {bits} bits"):
        decode_set(b"\x01", bits, 1)


# --- sets


def tokens_of(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def test_the_bytes_of_a_set_are_those_of_the_protocol() -> None:
    # 3 of 16 have the parameter 2. Distances 1, 3 and 9: 1 10, 1 11 and 001 10, lowest bit first.
    assert encode_set(tokens_of(1, 5, 15), 4) == bytes((3, 2, 0b00111011, 0b011))


def test_the_empty_set_is_no_bytes() -> None:
    assert encode_set(tokens_of(), 16) == b""
    assert len(decode_set(b"", 16, 0)) == 0


def test_the_whole_range_is_a_set() -> None:
    everything = np.arange(256, dtype=np.uint64)
    assert (decode_set(encode_set(everything, 8), 8, 256) == everything).all()


@pytest.mark.parametrize("bits", [1, 8, 16, 62])
def test_the_ends_of_the_range_are_tokens(bits: int) -> None:
    ends = tokens_of(0, 2**bits - 1)
    assert decode_set(encode_set(ends, bits), bits, 2).tolist() == ends.tolist()


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [((3, 3), "not increasing"), ((4, 3), "not increasing"), ((3, 16), "out of range")],
)
def test_what_is_not_a_set_is_not_encoded(numbers: tuple[int, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        encode_set(tokens_of(*numbers), 4)


def test_more_tokens_than_the_range_has_are_not_encoded() -> None:
    with pytest.raises(ValueError, match="out of range"):
        encode_set(np.arange(100, dtype=np.uint64), 4)


SET = encode_set(tokens_of(1, 5, 15), 4)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00", "a set of 0 tokens"),
        (b"\x00\x00", "a set of 0 tokens"),
        (b"\x03", "cut short"),
        (SET[:2], "cut short"),
        (SET[:-1], "cut short"),
        (SET + b"\x00", "followed"),
        (SET[:-1] + bytes((SET[-1] | 0x80,)), "followed"),
        (b"\x02" + SET[1:], "followed"),
        (b"\x05" + SET[1:], "parameter 2"),
        (b"\x03\x03" + SET[2:], "parameter 3"),
        (b"\x83\x00" + SET[1:], "begin with their number"),
        (b"\x80" * 12, "begin with their number"),
        (b"\xff" * 8 + b"\x7f", "a set of 9223372036854775807 tokens"),
        (b"\x03\x02\xff\xff\xff", "followed"),
        (b"\x01\x03" + b"\x00\x00\xff", "out of range"),
    ],
)
def test_what_encode_set_did_not_make_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_set(data, 4, 2**62)


def test_a_set_with_more_tokens_than_allowed_is_refused() -> None:
    assert len(decode_set(SET, 4, 3)) == 3
    with pytest.raises(ValueError, match="3 tokens, where 1 to 2"):
        decode_set(SET, 4, 2)


def test_a_set_of_another_range_is_refused() -> None:
    with pytest.raises(ValueError, match="cut short"):
        decode_set(encode_set(KEY.persons(1, PEOPLE[:100], 16), 16), 20, 100)


def test_a_number_of_tokens_that_the_bytes_cannot_hold_costs_no_memory() -> None:
    with pytest.raises(ValueError, match="cut short"):
        decode_set(b"\xff\xff\xff\xff\xff\xff\xff\x3f" + bytes(1000), 62, 2**62)


# --- bitmaps


def test_a_bitmap_has_the_first_leaf_in_the_lowest_bit_and_no_zeros_at_its_end() -> None:
    assert encode_bitmap(np.array([0, 9, 9]), 40) == b"\x01\x02"
    assert encode_bitmap(np.array([], np.int64), 40) == b""
    assert encode_bitmap(np.array([39]), 40) == b"\x00\x00\x00\x00\x80"


def test_a_bitmap_comes_back_as_its_leaves() -> None:
    leaves = decode_bitmap(encode_bitmap(np.array([9, 3, 0, 3]), 10))
    assert leaves.tolist() == [0, 3, 9]
    assert leaves.dtype == np.int64
    assert len(decode_bitmap(b"")) == 0


@pytest.mark.parametrize("leaf", [-1, 10])
def test_a_leaf_that_is_not_there_is_not_encoded(leaf: int) -> None:
    with pytest.raises(ValueError, match="out of range among 10"):
        encode_bitmap(np.array([leaf]), 10)


def test_a_bitmap_that_could_be_shorter_is_refused() -> None:
    with pytest.raises(ValueError, match="zero byte"):
        decode_bitmap(b"\x01\x00")
