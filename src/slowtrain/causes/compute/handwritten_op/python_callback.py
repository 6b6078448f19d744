"""The training graph calls back into Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slowtrain.causes.compute.handwritten_op.single_op_cure import LOOP_SPREAD, single_op_cures
from slowtrain.columns.input_pipeline import PYTHON_OPS
from slowtrain.model import Category, Evidence, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work
from slowtrain.whatif import Drop, Remedy

SAVED_SHARE = 0.9  # of the function's time


@dataclass(frozen=True)
class PythonCallback:
    """``ms`` per step in the Python function ``name``, which the graph calls. They lie in ``category``."""

    name: str
    ms: float
    category: Category
    where: tuple[Place, ...]

    @property
    def saved_ms(self) -> float:
        return SAVED_SHARE * self.ms

    def evidence(self) -> Evidence:
        return Evidence(
            f"the step calls back into Python ({self.name}), which takes {format_number(self.ms)} ms of each step",
            {str(self.category): self.saved_ms},
            self.where,
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        return [Drop({self.category: self.saved_ms}, spread=LOOP_SPREAD)]

    def scope_in(self, trace: Trace) -> str:
        return "step"

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        return single_op_cures(trace, self.where)


def find_python_callback(trace: Trace) -> PythonCallback | None:
    """Functions of the input pipeline are excluded."""
    if not any(kind in PYTHON_OPS for graph in op_work.training_graphs(trace) for kind in graph.get("types", {})):
        return None
    input_lines = {(w.detail.get("python") or {}).get("line") for p in trace.pipelines for w in p.written if w.python}
    called = [p for p in trace.producers if p.place is None or p.place.line not in input_lines]
    ms = sum(p.ms_per_step for p in called)
    if not called or ms <= 0:
        return None
    where = [line.place for line in called[0].lines[:1]] + [p.place for p in called if p.place]
    category = next(
        (c for c in (Category.DEVICE, Category.DISPATCH, Category.UNATTRIBUTED) if trace.mean(c) >= ms), Category.DEVICE
    )
    return PythonCallback(called[0].qualname, ms, category, tuple(dict.fromkeys(where))[:3])
