"""Python makes the input, one thread at a time because of the interpreter lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.idle_input_wait import missing_read_signals
from slowtrain.causes.input.python_input import fix
from slowtrain.causes.input.python_input.loop_work import find_loop_work, find_waiting_work
from slowtrain.causes.input.python_input.pipeline_work import cured_pipeline, find_pipeline_work
from slowtrain.causes.input.python_input.python_work import PythonWork
from slowtrain.model import Category, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy, Supply

SAYS_BY_KIND = {
    "samples": "return one sample at a time, {calls:.0f} calls a batch",
    "loop": "run line by line in the interpreter",
    "once": "do the same work again in every epoch",
    "drawn": "draw every batch again",
    "beside": "work while the step waits",
    "work": "work on one core",
    "waits": "wait for something and compute nothing meanwhile, and the bytes read do not explain it",
}

MEMORY_READING_WORDS = (
    "from_generator", "numpy_function", "py_function", "PyDataset", "utils.Sequence", "utils import Sequence",
    ", Sequence", "fit_generator", "yield", "__next__", "ImageDataGenerator",
)  # fmt: skip


class PythonInput(Cause[PythonWork]):
    """Batches are made by Python code, one thread at a time, and the step waits for them."""

    title = "Input is made by Python"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PYTHON})
    symptoms = frozenset({Category.INPUT, Category.PYTHON})
    words = MEMORY_READING_WORDS

    def wants(self, trace: Trace) -> frozenset[Signal]:
        return super().wants(trace) | (missing_read_signals(trace) if self.find(trace) is None else frozenset())

    def find(self, trace: Trace) -> PythonWork | None:
        return find_pipeline_work(trace) or find_loop_work(trace) or find_waiting_work(trace)

    def evidence(self, trace: Trace, finding: PythonWork) -> Evidence:
        held_ms = finding.held_ms
        hot = f", most of it in line {finding.where[0].line}" if finding.where else ""
        if trace.fact("profile"):  # a profile has functions at best, no lines
            hot = f", in {trace.producers[0].qualname}" if trace.producers else ""
        meanwhile = f"; the step itself waits up to {format_number(held_ms)} ms for it" if held_ms else ""
        return Evidence(
            f"Python takes {format_number(finding.ms)} ms of a {format_number(trace.step_ms)} ms step to make each "
            f"batch{hot}; its lines {SAYS_BY_KIND[finding.kind].format(calls=finding.calls)}{meanwhile}",
            {
                "python_ms": finding.ms,
                "calls_per_step": finding.calls,
                "left_share": finding.left_share,
                "held_ms": held_ms,
            },
            finding.where,
        )

    def remedies(self, trace: Trace, finding: PythonWork) -> Sequence[Remedy]:
        left, steps = finding.left_share, finding.steps_share
        runs_beside = finding.kind in ("beside", "waits")
        spread = (0.5, 1.1) if runs_beside or finding.kind == "work" else (0.8, 1.1)
        if finding.in_loop:
            return [Drop({Category.PYTHON: finding.ms * (1 - left)}, 0.0 if runs_beside else 1.0, spread)]
        cured, lock = cured_pipeline(trace.pipeline, finding), finding.held_ms > 0
        if cured is None:
            return [Supply(left, work=left, share=steps, lock=lock, spread=spread)]
        return [Supply(pipeline=cured, share=steps, lock=lock, spread=spread)]

    def cures(self, trace: Trace, finding: PythonWork) -> Iterable[Prescription]:
        return fix.cures_of_python(trace, finding)
