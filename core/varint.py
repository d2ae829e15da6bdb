"""Small numbers in few bytes: LEB128."""

from __future__ import annotations

from collections.abc import Iterable


def encode_numbers(numbers: Iterable[int]) -> bytes:
    """Each number in as many 7-bit groups as it needs."""
    data = bytearray()
    for number in numbers:
        while number > 0x7F:
            data.append(number & 0x7F | 0x80)
            number >>= 7
        data.append(number)
    return bytes(data)


def decode_numbers(data: bytes, count_max: int, most: int) -> list[int]:
    """The numbers; ValueError for more than `count_max` of them, or one above `most`."""
    numbers, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        if number > most or shift > 63:
            raise ValueError(f"a number above {most}")
        if byte & 0x80:
            shift += 7
        else:
            numbers.append(number)
            number, shift = 0, 0
    if shift or len(numbers) > count_max:
        raise ValueError(f"not a list of at most {count_max} numbers")
    return numbers
