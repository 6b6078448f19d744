"""How often a line of the script runs, which tells work on elements from work on whole arrays."""

from __future__ import annotations

from math import prod

from slowtrain.causes.host.elementwise_preprocessing import APPLYING_FUNCTIONS, looped_calls
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.text.source_file import Source
from slowtrain.trace.signals.host.source_lines import called_name, loops_around


def line_runs(source: Source, line: int) -> int | None:
    """How often a line runs; None unless all loops around it and around its function's calls say their iterations."""
    calls = looped_calls(source.tree, line)
    if any(called_name(call) in APPLYING_FUNCTIONS for call in calls):
        return None
    total = 0
    for outer in [loops_around(source.tree, call.lineno) for call in calls] or [[]]:
        loops = (*loops_around(source.tree, line), *outer)
        counts = [queries.loop_turns(source, head) for loop in loops for head in getattr(loop, "generators", [loop])]
        if None in counts:
            return None
        total += prod(count for count in counts if count is not None)
    return total
