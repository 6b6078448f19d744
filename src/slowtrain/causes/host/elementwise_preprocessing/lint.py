"""Finds the cause host/elementwise-preprocessing in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.host.elementwise_preprocessing import VECTORISE
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots import reached
from slowtrain.source.spots.host import insteps, loops
from slowtrain.source.spots.input import images


def find_spots(source: Source) -> Iterable[Spot]:
    """Loops over at least a hundred thousand elements that NumPy can do in one call."""
    stepping = {loop for loop, _ in insteps.beside_steps(source)}  # host/python-in-step
    for loop, turns, found in loops.elementwise(source):
        if loop in stepping:
            continue
        says = f"a Python loop does work that NumPy can do for {'all' if turns is None else f'{turns:,}'} elements"
        effect = Effect.EXACT if found is not None and found.exact else Effect.EQUIVALENT
        cure = Prescription("edit", effect, VECTORISE, edits=found.edits if found is not None else ())
        yield Spot(*loops.head(loop), says, cure)
    for call, says in loops.singly(source):
        cure = Prescription("edit", Effect.EXACT, "call the layer once for all samples, outside the loop")
        yield Spot(edits.node_start(call), edits.node_end(call), says, cure)
    for each, says in loops.vectorized(source):
        whole = "write the function with np.where, np.clip and NumPy's own functions, and call it for whole arrays"
        yield Spot(edits.node_start(each), edits.node_end(each), says, Prescription("edit", Effect.EQUIVALENT, whole))
    for call in dict.fromkeys(images.one_by_one(source)):
        yield Spot(*call_index.operation_range(call), images.SAYS, images.CURE)
    for grown in reached.grown(source):
        says = "each iteration of a long loop copies all rows of this array to add some"
        once = "collect the rows in a list or in an array of the full size, and join them once"
        yield Spot(edits.node_start(grown), edits.node_end(grown), says, Prescription("edit", Effect.EXACT, once))
