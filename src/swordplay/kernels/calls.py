"""Kernels that call another kernel's very machine code, by its address.

A kernel that calls another one by name gets a copy, optimised anew beside its caller, and where
sums may be reordered the copy's last bit may differ. What must agree bit for bit with a kernel that
Python calls has to be that kernel. An address is a number, so it does not keep callers out of the
cache on disk, and they compile in a fraction of the time.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic, overload

from swordplay.kernels import ball, ensemble

LEARN: tuple[Any, Any] = (ensemble.learn, ball.learn)


def address_of_learn(compact: bool, dtype: np.dtype[Any]) -> int:
    """Return where the machine code of ``ensemble.learn`` or ``ball.learn`` begins."""
    kernel = LEARN[compact]
    if not hasattr(kernel, "compile"):  # NUMBA_DISABLE_JIT is set
        return int(compact)
    number = numba.from_dtype(dtype)
    row, recipe = types.Array(number, 1, "C"), types.Array(types.float64, 1, "C")
    kernel.compile((row, recipe, row))
    result = kernel.overloads[row, recipe, row]
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def learn_at(address: Any, row: Any, recipe: Any, gradient: Any) -> Any:
    """Return what ``learn`` at ``address`` returns."""
    return LEARN[address](row, recipe, gradient)


@intrinsic
def _call(typing_context: Any, address: Any, row: Any, recipe: Any, gradient: Any) -> Any:
    """Call a kernel by Numba's own convention."""
    signature = types.int64(address, row, recipe, gradient)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args[1:]
        kind = context.call_conv.get_function_type(signature.return_type, kinds)
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        status, result = context.call_conv.call_function(
            builder, function, signature.return_type, kinds, arguments[1:]
        )
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(builder, status)
        return result

    return signature, build


@overload(learn_at)
def _learn_at(address: Any, row: Any, recipe: Any, gradient: Any) -> Any:
    def called(address: Any, row: Any, recipe: Any, gradient: Any) -> Any:
        return _call(address, row, recipe, gradient)  # type: ignore[call-arg]  # Numba adds one

    return called
