"""The finding of input/python-input: what the Python that makes a batch does, and what a cure leaves of it."""

from __future__ import annotations

from dataclasses import dataclass

from slowtrain.model import Place


@dataclass(frozen=True)
class PythonWork:
    """Python that takes ``ms`` in ``calls`` calls for each batch; a cure leaves ``left_share`` of it.

    ``kind``: samples, loop, once, drawn, beside, work or waits. ``steps_share``: the part of the steps that gain.
    ``in_loop``: the training loop's own lines make the batch. ``held_ms``: what the step's own threads wait for the
    interpreter lock although their batch is ready.
    """

    kind: str
    ms: float
    calls: float
    where: tuple[Place, ...]
    left_share: float
    steps_share: float = 1.0
    in_loop: bool = False
    held_ms: float = 0.0


MIN_LOOP_SHARE = 0.05  # array code leaves of the time of a loop in bytecode; assumed: it is ten and more times faster
MAX_WAITING_SHARE = 0.5  # Python that is idle for longer waits for something, such as a disk or a network
