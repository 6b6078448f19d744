"""Where the cause input/starved-host shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.starved_host import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.lint_rules.input import thread_limits
from slowtrain.script.navigation import call_index
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Pipelines that ask for several calls at once and have one thread."""
    for limit in thread_limits.single_thread_pools(source):
        made = tuple(dataset_edits.remove_thread_limit(source, limit.lineno))
        maps = [c for c in call_index.index_of(source).called("map") if c.args and dataset_chains.is_operation(c)]
        drawn = any(repeatable_functions.may_vary_by_call(source, c.args[0]) for c in maps)
        cure = Prescription("edit", Effect.EQUIVALENT if drawn else Effect.EXACT, fix.ONE_THREAD_CURE, edits=made)
        says = "the data set asks for several calls at once, but this leaves it one thread"
        yield Spot(edits.node_start(limit), edits.node_end(limit), says, cure)
