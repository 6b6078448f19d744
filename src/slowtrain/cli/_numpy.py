"""NumPy in a process that only reads: without the threads that it starts for linear algebra."""

from __future__ import annotations

import os

THREADS = "OPENBLAS_NUM_THREADS"  # of the library in NumPy's wheels; asked once, when it is loaded


def alone() -> None:
    """Imports NumPy with one thread: starting one for each core takes as long as half of the import.

    There is next to nothing here for them to do. The environment stays as it was, for what this process starts may be
    the user's; and where it names a number, that is the user's will.
    """
    if THREADS in os.environ:
        return
    os.environ[THREADS] = "1"
    try:
        import numpy  # noqa: F401, ICN001
    finally:
        del os.environ[THREADS]
