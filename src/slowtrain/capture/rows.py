"""Where spans are kept until they are written: rows of :data:`~slowtrain.capture.store.SPAN_FIELDS` integers."""

from __future__ import annotations

import itertools
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from slowtrain.capture.state import Flags, Known, Progress, Read
from slowtrain.capture.store import SPAN_FIELDS

VARIABLE = "SLOWTRAIN_NATIVE"  # 0: nothing of hot.c is used

Row = tuple[int, int, int, int, int]


def _compiled() -> Any:
    """The module made of ``hot.c``; None where it was not compiled, or of older sources, or Python has no lock."""
    if os.environ.get(VARIABLE) == "0" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    try:
        from slowtrain.capture import hot

        hot.bind(Flags, Known, Progress, Read)
    except (ImportError, TypeError, AttributeError):
        return None
    return hot


hot = _compiled()


class PlainRows:
    """The same in Python. ``emit`` is one call into C without a lock: the interpreter's makes it whole."""

    def __init__(self) -> None:
        # Not one flat array: to extend that took four microseconds in caches that a training step has emptied, to
        # append to a list takes one.
        self._rows: list[Row] = []
        self.emit = self._rows.append

    def __len__(self) -> int:
        return len(self._rows)

    def take(self) -> bytes:
        """All rows so far, packed; they are gone from here. Raises ``ValueError`` where one is none, and all are lost.

        Others append meanwhile: what came after the copy stays for the next time.
        """
        settled = self._rows[:]
        del self._rows[: len(settled)]
        try:
            # Raises where a row has more or fewer numbers: where the others begin could not be told. Twice as fast as
            # an array made of the numbers.
            return struct.pack(f"{SPAN_FIELDS * len(settled)}q", *itertools.chain.from_iterable(settled))
        except struct.error as error:
            raise ValueError(f"not {SPAN_FIELDS} integers of 64 bits: {error}") from error

    def collector(self, *generations: int) -> Callable[[str, dict[str, int]], None]:
        """For ``gc.callbacks``: a row for each collection, with what it freed. Given names of the three generations."""
        begun = [0]

        def collected(phase: str, info: dict[str, int]) -> None:
            if phase == "start":
                begun[0] = time.perf_counter_ns()
            else:
                name = generations[info["generation"]]
                self.emit((name, begun[0], time.perf_counter_ns(), threading.get_ident(), info["collected"]))

        return collected


def rows() -> Any:
    return PlainRows() if hot is None else hot.Rows()
