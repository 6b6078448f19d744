"""Where the cause machine/limited-host shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.machine.limited_host import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.navigation import training_calls
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots.input import threads


def find_spots(source: Source) -> Iterable[Spot]:
    """A file that trains, and keeps TensorFlow or its data sets to one thread, or itself to one core."""
    if not training_calls.takes_training_steps(source):
        return
    single = "the parallel maps of this file's data sets share one thread, whatever the machine has"
    both = [(call, single, fix.more_threads) for call in threads.shared(source)]
    for node, says, cure in (*fix.limits(source), *both):
        lift = "give the process all cores: lift the affinity, quota or thread setting"
        cured = Prescription("edit", Effect.EQUIVALENT, lift, edits=cure(source))
        yield Spot(edits.node_start(node), edits.node_end(node), says, cured)
