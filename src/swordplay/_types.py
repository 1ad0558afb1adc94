"""The array types that the whole package speaks."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Rows are float64 or float32; which one is the learner's choice at run time.
Array: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[np.bool_]

__all__ = ["Array", "ArrayLike", "Mask"]
