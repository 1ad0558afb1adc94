"""The one way in which this package compiles a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered and fused (vector instructions need it); NaN and infinity keep their
# meaning, because the kernels look for them.
REORDER = {"reassoc", "contract", "arcp", "nsz"}


def compiled(function: Function) -> Function:
    """Compile ``function`` on first use, keep the result on disk, hold no lock while it runs."""
    wrapped: Function = numba.njit(cache=True, nogil=True, fastmath=REORDER, error_model="numpy")(
        function
    )
    return wrapped
