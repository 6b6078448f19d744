"""Finds the cause host/python-in-step in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.host import vectorising
from slowtrain.source.spots.host import insteps, loops


def find_spots(source: Source) -> Iterable[Spot]:
    """Loops over at least a thousand elements in each iteration of a training loop that make no input."""
    for loop, turns in insteps.beside_steps(source):
        says = f"in each training step Python runs {turns:,} iterations of this loop"
        whole = "write the loop for whole arrays (NumPy), or in array operations inside the tf.function"
        found = vectorising.vectorised(source, loop.lineno)
        effect = Effect.EXACT if found is not None and found.exact else Effect.EQUIVALENT
        cure = Prescription("edit", effect, whole, edits=found.edits if found is not None else ())
        yield Spot(*loops.head(loop), says, cure)
