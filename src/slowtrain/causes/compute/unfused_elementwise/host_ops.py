"""Elementwise ops on the processor that pass over memory: many of them, and most of the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slowtrain.model import Category, Evidence
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work
from slowtrain.trace.signals.host import host_work
from slowtrain.whatif import Drop, Remedy

MIN_OP_MS = 0.1  # of an op that passes over memory; a shorter op costs its start, of which XLA saves little here
MIN_OPS = 20  # such ops per step: one chain or several
MIN_STEP_SHARE = 0.5
# Steps of nothing but such ops of 0.1 ms and more were 1.0 to 10 times as fast with XLA, with a median of 2.3. Steps
# that draw random numbers were a third as fast (clinic/fusing.py).
KEPT_SHARE, SAVING_SPREAD = 0.45, (0.4, 1.5)
MAX_RANDOM_SHARE = 0.05  # of the ops' time, in random numbers: with more, nothing is predicted


@dataclass(frozen=True)
class LongHostOps:
    """``count`` long elementwise ops take ``ms`` per step."""

    ms: float
    count: float

    def evidence(self, trace: Trace) -> Evidence:
        return Evidence(
            f"{self.count:,.0f} elementwise ops of {format_number(self.ms / self.count)} ms each, each a pass over "
            f"memory, take {format_number(self.ms)} of a step's {format_number(trace.step_ms)} ms",
            {"elementwise_ms": self.ms, "elementwise_share": self.ms / trace.step_ms, "kernels": self.count},
            host_work.step_places(trace),
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        return [Drop({Category.DEVICE: (1 - KEPT_SHARE) * self.ms}, spread=SAVING_SPREAD)]


def find_long_host_ops(trace: Trace) -> LongHostOps | None:
    kernels = trace.kernels
    if kernels is None or kernels.ms <= 0 or trace.eager:
        return None
    ops = op_work.window_ops(kernels)
    long_ops = [
        op
        for op in ops
        if op.kind in framework_names.ELEMENTWISE_OPS and not op.update and op.count and op.ms / op.count >= MIN_OP_MS
    ]
    long_ms = sum(op.ms for op in long_ops)
    random_ms = sum(op.ms for op in ops if framework_names.RANDOM_OP.search(op.kind))
    count = sum(op.count for op in long_ops)
    ms = trace.mean(Category.DEVICE) * long_ms / kernels.ms
    if count < MIN_OPS or ms < MIN_STEP_SHARE * trace.step_ms or random_ms > MAX_RANDOM_SHARE * long_ms:
        return None
    return LongHostOps(ms, count)
