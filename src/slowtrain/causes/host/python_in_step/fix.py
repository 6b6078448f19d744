"""Advice for Python of the script that each step runs."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.host.python_in_step import PythonInStepFinding
from slowtrain.model import Effect, Prescription
from slowtrain.script.locations.edits import input_edits
from slowtrain.trace import Trace


def find_cures(trace: Trace, finding: PythonInStepFinding) -> Iterable[Prescription]:
    function = input_edits.hottest_function(trace, finding.places)
    of = f" of {function}" if function else ""
    says = f"move this work{of} out of the loop, into the data set's map, or do it every hundredth step"
    if finding.is_element_loop:
        graph = "a jitted function" if trace.on_jax else "the tf.function"
        says = f"write the loop{of} for whole arrays (NumPy), or in array operations inside {graph}"
    yield Prescription("advice", Effect.EQUIVALENT, says)
