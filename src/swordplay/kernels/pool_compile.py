"""How the pool's kernels are compiled: exactly, and four lanes at a time.

Exactly: sums are not reordered, unlike in the other kernels. A prediction is then the same number
from every entry point (one row, a batch, a fleet), whatever the compiler inlines.

Four lanes at a time: LLVM's SLP vectoriser turns four neighbouring scalar operations into one
instruction. Numba leaves it off; without it the pool takes 1.25 times as long at d = 10.
It is a setting of the whole process, so it is on only while an entry point compiles, under Numba's
compiler lock: nobody else's kernels see it. Results are the same bits either way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.compiler_lock import global_compiler_lock

from swordplay.kernels.compiled import _FOLDER, Function, compiled, config

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def exact(function: Function) -> Function:
    """Compile a piece of entry points: it is kept on disk inside each of them."""
    wrapped: Function = numba.njit(**_OPTIONS)(function)
    return wrapped


def exact_entry(function: Function) -> Function:
    """Compile an entry point on first use, with SLP vectorisation, and keep it on disk."""
    if config.DISABLE_JIT:
        return compiled(function)
    elsewhere = config.CACHE_DIR
    try:
        config.CACHE_DIR = "" if _FOLDER is None else str(_FOLDER)
        wrapped: Any = numba.njit(cache=_FOLDER is not None, **_OPTIONS)(function)
    finally:
        config.CACHE_DIR = elsewhere
    wrapped.compile = _vectorised(wrapped.compile)
    result: Function = wrapped
    return result


def _vectorised(compile_: Callable[..., Any]) -> Callable[..., Any]:
    """Return the dispatcher's own ``compile``, run with the vectoriser on."""

    def compile_with_slp(signature: Any) -> Any:
        with global_compiler_lock:
            before = config.SLP_VECTORIZE
            config.SLP_VECTORIZE = 1
            try:
                return compile_(signature)
            finally:
                config.SLP_VECTORIZE = before

    return compile_with_slp
