"""Types of NumPy columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NO_FLOATS: Floats = np.zeros(0)
NO_INTS: Ints = np.zeros(0, dtype=np.int64)
