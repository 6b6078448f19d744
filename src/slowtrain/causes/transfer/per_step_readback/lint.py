"""Where the cause transfer/per-step-readback shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from slowtrain.causes.transfer.per_step_readback import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.loops import deferred_readbacks
from slowtrain.script.lint_rules.steps import step_copies
from slowtrain.script.lint_rules.steps import tensor_readbacks as readback_spots
from slowtrain.script.navigation import scope_names
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Many values read one by one, or values for a line of log, in every iteration of a loop of compiled steps."""
    known = list(readback_spots.step_readbacks(source))
    for read in known:
        made = tuple(deferred_readbacks.defer_readbacks(source, read.node.lineno))
        says = "read back every hundredth step, or all values at once at the end of an epoch"
        cure = Prescription("edit", Effect.EXACT, says, edits=made)
        end = edits.node_end(read.node.iter) if isinstance(read.node, ast.For) else edits.node_end(read.node)
        yield Spot(edits.node_start(read.node), end, read.says, cure)
    back = (*step_copies.step_reads(source), *step_copies.separate_reads(source))
    for more in step_copies.copies_not_known(_loops_of_readbacks(source, known), back):
        made = tuple(fix.read_by_index(source, more.node.lineno))
        cure = Prescription("edit" if made else "advice", Effect.EXACT, more.cure, edits=made)
        yield Spot(edits.node_start(more.node), edits.node_end(more.node), more.says, cure)


def _loops_of_readbacks(source: Source, known: Sequence[readback_spots.TensorReadback]) -> list[ast.AST]:
    """The loops of readbacks that are reported already: one cure serves all of a loop."""
    around = [(read.node, scope_names.enclosing_loops(source, read.node)) for read in known]
    return [loops[0] if loops else node for node, loops in around]
