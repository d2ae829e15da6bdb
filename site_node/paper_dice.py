"""Where the paper says "random": a small generator of its own, the same on every machine."""

from __future__ import annotations

from typing import Final

_WORD: Final = 2**64 - 1


class Dice:
    """SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014)."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _WORD

    def below(self, n: int) -> int:
        """The next random number in 0..n-1."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _WORD
        word = self._state
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
        return (word ^ (word >> 31)) * n >> 64
