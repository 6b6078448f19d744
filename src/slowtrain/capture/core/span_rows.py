"""Spans kept in memory until they are written, as rows of :data:`~slowtrain.recording.store.SPAN_FIELDS` integers."""

from __future__ import annotations

import itertools
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from slowtrain.capture.core.thread_state import Flags, FunctionSite, Progress, ReadbackSite
from slowtrain.recording.store import SPAN_FIELDS

NATIVE_VARIABLE = "SLOWTRAIN_NATIVE"  # 0: do not use hot.c

Row = tuple[int, int, int, int, int]


def _compiled_module() -> Any:
    """Returns the module compiled from ``hot.c``.

    None if it was not compiled, was compiled from older sources, or Python runs without the interpreter lock.
    """
    if os.environ.get(NATIVE_VARIABLE) == "0" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    try:
        from slowtrain.capture.core import hot

        hot.bind(Flags, FunctionSite, Progress, ReadbackSite)
    except (ImportError, TypeError, AttributeError):
        return None
    return hot


hot = _compiled_module()


class PlainRows:
    """The Python version of ``hot.Rows``. ``emit`` is one call into C, which the interpreter lock makes atomic."""

    def __init__(self) -> None:
        # Not one flat array: extending it took four microseconds in caches that a training step has emptied. Appending
        # to a list takes one.
        self._rows: list[Row] = []
        self.emit = self._rows.append

    def __len__(self) -> int:
        return len(self._rows)

    def take(self) -> bytes:
        """Returns all rows so far, packed as bytes, and removes them.

        Rows that other threads append meanwhile stay for the next call. Raises ``ValueError`` if a row does not
        consist of :data:`SPAN_FIELDS` integers; all rows taken are lost then.
        """
        settled = self._rows[:]
        del self._rows[: len(settled)]
        try:
            # Raises if a row has more or fewer numbers, because the borders of the other rows would be unknown. Twice
            # as fast as making an array of the numbers.
            return struct.pack(f"{SPAN_FIELDS * len(settled)}q", *itertools.chain.from_iterable(settled))
        except struct.error as error:
            raise ValueError(f"not {SPAN_FIELDS} integers of 64 bits: {error}") from error

    def collector(self, *generations: int) -> Callable[[str, dict[str, int]], None]:
        """Returns a function for ``gc.callbacks`` that adds a row for each collection, with the number of freed
        objects.

        ``generations`` are the names of the three generations.
        """
        begun = [0]

        def add_collection(phase: str, info: dict[str, int]) -> None:
            if phase == "start":
                begun[0] = time.perf_counter_ns()
            else:
                name = generations[info["generation"]]
                self.emit((name, begun[0], time.perf_counter_ns(), threading.get_ident(), info["collected"]))

        return add_collection


def new_rows() -> Any:
    return PlainRows() if hot is None else hot.Rows()
