"""Where the cause host/compile-in-loop shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.host.compile_in_loop import builds as spotted
from slowtrain.causes.host.compile_in_loop import factories
from slowtrain.causes.host.compile_in_loop.restarting import restarted
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots import reached


def find_spots(source: Source) -> Iterable[Spot]:
    """Compiled, built or defined in a loop, where no turn needs another one."""
    seen = False
    once = "build, compile and define tf.functions once before the loop; reset weights and rates in it"
    for again, effect in (
        (spotted.compiled_again, Effect.EXACT),
        (spotted.functions_again, Effect.EQUIVALENT),
    ):
        for one in again(source):
            seen = True
            yield Spot(one.start, one.end, one.says, Prescription("edit", effect, once, edits=one.changed))
    for node, says in () if seen else reached.built(source):
        start, end = (
            call_index.operation_range(node)
            if isinstance(node, ast.Call)
            else (edits.node_start(node), edits.node_end(node))
        )
        if isinstance(node, ast.Call) and node_lookup.called_name(node) == "compile":
            changed = tuple(restarted(source, node.lineno))
        else:
            changed = tuple(factories.remembered(source, node.lineno))
        yield Spot(start, end, says, Prescription("edit", Effect.EQUIVALENT, once, edits=changed))
