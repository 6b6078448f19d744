"""A Python loop with hundreds of iterations in each eager step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slowtrain.causes.compute.handwritten_op.single_op_cure import LOOP_SPREAD, single_op_cures
from slowtrain.columns.device import Line
from slowtrain.model import Category, Evidence, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.locations.recorded_sources import handmade_input_places
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import lane_places
from slowtrain.whatif import Drop, Remedy

MIN_ITERATIONS = 500  # in each step
MIN_LOOP_SHARE = 0.3  # of the host's time in the step
SAVED_SHARE = 0.9  # of the loop's time
MAX_LINES_APART = 2  # between a line of the loop and one that makes input or reads back


@dataclass(frozen=True)
class EagerLoop:
    """``ms`` per step in a Python loop of ``iterations``."""

    iterations: float
    ms: float
    where: tuple[Place, ...]

    @property
    def saved_ms(self) -> float:
        return SAVED_SHARE * self.ms

    def evidence(self) -> Evidence:
        return Evidence(
            f"a Python loop has {self.iterations:,.0f} iterations and takes {format_number(self.ms)} ms in each step",
            {str(Category.DISPATCH): self.saved_ms},
            self.where,
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        return [Drop({Category.DISPATCH: self.saved_ms}, spread=LOOP_SPREAD)]

    def scope_in(self, trace: Trace) -> str:
        return "step"

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        return single_op_cures(trace, self.where)


def find_eager_loop(trace: Trace) -> EagerLoop | None:
    """A loop that neither reads values back nor makes input. Such loops belong to other causes."""
    if not trace.eager:
        return None
    excluded = {p for lane in ("readback", "feed", "next") for p in lane_places(trace, lane)}
    input_places = handmade_input_places(trace)
    frequent = [line for line in trace.loop_lines if line.visits >= MIN_ITERATIONS and line.place not in input_places]
    lines = [line for line in frequent if not _is_near(line, excluded)]
    share = sum(line.share for line in lines)
    if not lines or share < MIN_LOOP_SHARE:
        return None
    ms = (trace.mean(Category.PYTHON) + trace.mean(Category.DISPATCH)) * share
    return EagerLoop(max(line.visits for line in lines), ms, tuple(line.place for line in lines[:3]))


def _is_near(line: Line, places: set[Place]) -> bool:
    return any(p.file == line.place.file and abs(p.line - line.place.line) <= MAX_LINES_APART for p in places)
