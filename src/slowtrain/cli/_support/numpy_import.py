"""Imports NumPy without the threads that it starts for linear algebra."""

from __future__ import annotations

import os

BLAS_THREADS_VARIABLE = "OPENBLAS_NUM_THREADS"  # read by the BLAS library in NumPy's wheels once, when it is loaded


def import_single_threaded() -> None:
    """Imports NumPy with one BLAS thread, because starting one per core takes half of the time of the import.

    The verbs do almost no linear algebra. The environment is restored, because this process may start the user's
    script. A number that is set in the environment is kept.
    """
    if BLAS_THREADS_VARIABLE in os.environ:
        return
    os.environ[BLAS_THREADS_VARIABLE] = "1"
    try:
        import numpy  # noqa: F401, ICN001
    finally:
        del os.environ[BLAS_THREADS_VARIABLE]
