"""Finds the cause host/compile-in-loop in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.host.compile_in_loop import fix, repeated_builds
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules.steps import reached_code
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Models and functions that are compiled, built or defined in a loop although no iteration needs a new one."""
    builds = [(one, Effect.EXACT) for one in repeated_builds.repeated_compiles(source)]
    builds += [(one, Effect.EQUIVALENT) for one in repeated_builds.repeated_functions(source)]
    for one, effect in builds:
        yield Spot(one.start, one.end, one.says, Prescription("edit", effect, fix.BUILD_ONCE, edits=one.changed))
    for node, says in () if builds else reached_code.repeated_builds(source):
        start, end = (
            call_index.operation_range(node)
            if isinstance(node, ast.Call)
            else (edits.node_start(node), edits.node_end(node))
        )
        if isinstance(node, ast.Call) and node_lookup.called_name(node) == "compile":
            changed = tuple(fix.reset_optimizer(source, node.lineno))
        else:
            changed = tuple(fix.remember_function(source, node.lineno))
        yield Spot(start, end, says, Prescription("edit", Effect.EQUIVALENT, fix.BUILD_ONCE, edits=changed))
