"""Where the cause machine/limited-host shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.machine.limited_host import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules.input import thread_limits
from slowtrain.script.navigation import training_calls
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Files that train with TensorFlow or data sets limited to one thread, or with the process on one core."""
    if not training_calls.takes_training_steps(source):
        return
    shared_says = "the parallel maps of this file's data sets share one thread, however many cores there are"
    shared = [(call, shared_says, fix.thread_limit_edits) for call in thread_limits.shared_thread_limits(source)]
    for node, says, find_edits in (*fix.find_core_limits(source), *shared):
        prescription = Prescription("edit", Effect.EQUIVALENT, fix.ALL_CORES_CURE, edits=find_edits(source))
        yield Spot(edits.node_start(node), edits.node_end(node), says, prescription)
