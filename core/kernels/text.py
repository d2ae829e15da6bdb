"""From text to 64-bit codes: persons and free sensitive values are compared, never read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.kernels.jit import kernel
from core.kernels.layout import Ints, Longs

_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)
_MIX = np.uint64(0xFF51AFD7ED558CCD)


@kernel
def hash_text(offset: Ints, data: NDArray[np.uint8], code: Longs) -> None:
    """A 64-bit code (FNV-1a, mixed) of every text data[offset[i]:offset[i + 1]].

    Two texts with one code would count as one: persons and values are then under-counted, which
    makes a class larger than it need be and never smaller.
    """
    for i in range(code.shape[0]):
        word = _BASIS
        for j in range(offset[i], offset[i + 1]):
            word = (word ^ np.uint64(data[j])) * _PRIME
        word = (word ^ (word >> np.uint64(33))) * _MIX
        code[i] = np.int64(word ^ (word >> np.uint64(29)))
