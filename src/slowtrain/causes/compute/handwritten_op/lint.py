"""Where the cause compute/handwritten-op shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules.steps import interpreted_ops, reached_code
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Products with one-hot rows; convolutions and many small products in Python loops."""
    known = list(reached_code.reached_handwritten_ops(source))
    for one in known:
        cure = Prescription("edit", Effect.EQUIVALENT, one.cure, edits=one.changed)
        yield Spot(one.start, one.end, one.says, cure)
    for node, says in () if known else interpreted_ops.row_by_row_ops(source):
        whole = Prescription("edit", Effect.EQUIVALENT, "use one op for all of them: another axis, or einsum")
        yield Spot(edits.node_start(node), edits.node_end(node), says, whole)
