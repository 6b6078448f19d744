"""Where the cause transfer/per-step-feed shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.transfer.per_step_feed import conversions
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import hoisted_conversions
from slowtrain.script.lint_rules.input import hand_fed_batches
from slowtrain.script.lint_rules.steps import step_copies
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Conversions between the steps of a loop: of unchanged data, of data that NumPy draws there, of lists."""
    seen: set[ast.expr] = set()
    for fed in hand_fed_batches.step_conversions(source):
        says = "convert once before the loop" if fed.edits else "feed from a tf.data.Dataset that ends in .prefetch()"
        cure = Prescription("edit", Effect.EXACT if fed.edits else Effect.CHANGES_TRAINING, says, edits=fed.edits)
        seen.add(fed.node)
        yield Spot(edits.node_start(fed.node), edits.node_end(fed.node), fed.says, cure)
    for one in conversions.find_needless_conversions(source):
        if one.call not in seen:
            seen.add(one.call)
            made = tuple(hoisted_conversions.hoist_repeated_work(source, one.call.lineno)) if one.same else ()
            cure = Prescription("edit" if made else "advice", Effect.EXACT, one.cure, edits=made)
            yield Spot(edits.node_start(one.call), edits.node_end(one.call), one.says, cure)
    reached = (
        *step_copies.step_conversions(source),
        *step_copies.small_conversions(source),
        *step_copies.session_feeds(source),
    )
    for more in step_copies.copies_not_known(seen, reached):
        cure = Prescription("advice", Effect.EXACT, more.cure)
        yield Spot(edits.node_start(more.node), edits.node_end(more.node), more.says, cure)
