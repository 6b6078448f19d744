"""Finds the cause host/python-in-step in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.loops import array_loops
from slowtrain.script.lint_rules import spots, step_code
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Loops over at least a thousand elements in each iteration of a training loop that make no input, and loops of a
    ``py_function`` in a step.
    """
    for loop, turns in step_code.loops_between_steps(source):
        says = f"in each training step Python runs {turns:,} iterations of this loop"
        whole = "write the loop for whole arrays (NumPy), or in array operations inside the tf.function"
        found = array_loops.vectorise_loop(source, loop.lineno)
        effect = Effect.EXACT if found is not None and found.exact else Effect.EQUIVALENT
        cure = Prescription("edit", effect, whole, edits=found.edits if found is not None else ())
        yield spots.node_spot(loop, says, cure)
    for node in step_code.python_loops_in_graphs(source):
        says = "each training step leaves the graph and runs this loop in Python"
        cure = Prescription("edit", Effect.EQUIVALENT, "write it in TensorFlow ops, or compute it after the epoch")
        yield spots.node_spot(node, says, cure)
