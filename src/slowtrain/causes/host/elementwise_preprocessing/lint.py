"""Finds the cause host/elementwise-preprocessing in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.host.elementwise_preprocessing import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules.host import element_loops, loops_between_steps
from slowtrain.script.lint_rules.input import image_generators
from slowtrain.script.lint_rules.steps import reached_code
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Loops over at least a hundred thousand elements that NumPy can do in one call."""
    stepping = {loop for loop, _ in loops_between_steps.loops_between_steps(source)}  # host/python-in-step
    for loop, turns, found in element_loops.elementwise_loops(source):
        if loop in stepping:
            continue
        says = f"a Python loop does work that NumPy can do for {'all' if turns is None else f'{turns:,}'} elements"
        effect = Effect.EXACT if found is not None and found.exact else Effect.EQUIVALENT
        cure = Prescription("edit", effect, fix.VECTORISE, edits=found.edits if found is not None else ())
        yield Spot(*element_loops.loop_head(loop), says, cure)
    for call, says in element_loops.single_sample_calls(source):
        cure = Prescription("edit", Effect.EXACT, "call the layer once for all samples, outside the loop")
        yield Spot(edits.node_start(call), edits.node_end(call), says, cure)
    for each, says in element_loops.vectorize_calls(source):
        whole = "write the function with np.where, np.clip and NumPy's own functions, and call it for whole arrays"
        yield Spot(edits.node_start(each), edits.node_end(each), says, Prescription("edit", Effect.EQUIVALENT, whole))
    for call in dict.fromkeys(image_generators.transforms_in_loop(source)):
        yield Spot(
            *call_index.operation_range(call), image_generators.TRANSFORM_TEXT, image_generators.TRANSFORM_PRESCRIPTION
        )
    for grown in reached_code.growing_arrays(source):
        says = "each iteration of a long loop copies all rows of this array to add some"
        once = "collect the rows in a list or in an array of the full size, and join them once"
        yield Spot(edits.node_start(grown), edits.node_end(grown), says, Prescription("edit", Effect.EXACT, once))
