"""How kernels are compiled: for speed, without changing results, and cached on disk.

No fastmath and no bounds checks. `_nrt` is off because kernels allocate nothing: arrays are only
borrowed, and counting references to them would cost more than the work itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: Final[dict[str, Any]] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "_nrt": False,
}


def kernel(function: F) -> F:
    """Compile a step of the algorithm."""
    return cast(F, numba.njit(**_OPTIONS)(function))


def leaf(function: F) -> F:
    """Compile a small step that runs for every tuple: always inlined into its caller."""
    return cast(F, numba.njit(**_OPTIONS, forceinline=True)(function))
