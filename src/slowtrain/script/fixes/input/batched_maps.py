"""Maps of tf.data that work on batches instead of on elements."""

from __future__ import annotations

from collections.abc import Sequence

from slowtrain.model import Edit
from slowtrain.script.fixes.input import batch_equivalence
from slowtrain.script.fixes.input.dataset_edits import ORDERED_SOURCES
from slowtrain.script.navigation import node_lookup
from slowtrain.script.pipelines import chain_edits, dataset_chains
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

# Operations that keep each element unchanged.
ELEMENT_KEEPING_OPERATIONS = frozenset({"map", "shuffle", "repeat", "prefetch", "with_options", "take", "skip"})
# All elements have the same shape.
UNIFORM_SHAPE_OPERATIONS = (ORDERED_SOURCES - {"from_generator", "zip"}) | {"shuffle", "repeat", "take", "skip"}


def batch_before_map(
    source: Source,
    line: int,
    function_line: int | None = None,
    ranks: Sequence[int | None] = (),
    results: Sequence[int | None] = (),
) -> tuple[list[Edit], bool]:
    """Replace ``.map(f).batch(n)`` at ``line`` by ``.batch(n).map(f)``. Return whether ``f`` draws random numbers.

    ``f`` must give the same results for a batch: see
    :func:`slowtrain.script.fixes.input.batch_equivalence.changes_for_batches`.
    """
    found = dataset_chains.map_calls(source, line, function_line)
    several = dataset_chains.chains_through(source, found[0]) if len(found) == 1 else []
    if not several:
        return [], False
    if not ranks and not set(several[0].names[: several[0].calls.index(found[0])]) <= UNIFORM_SHAPE_OPERATIONS:
        return [], False
    run, changes, random = [found[0]], [], False
    for call in several[0].calls_after(found[0]):
        run.append(call)
        if node_lookup.called_name(call) == "batch":
            break
        if node_lookup.called_name(call) not in ELEMENT_KEEPING_OPERATIONS:
            return [], False
    if node_lookup.called_name(run[-1]) != "batch" or not chain_edits.are_movable(source, run):
        return [], False
    maps = [c for c in run if node_lookup.called_name(c) == "map"]
    for call in maps:
        first = call is found[0]
        followed = batch_equivalence.changes_for_batches(source, call, ranks if first else (), results if first else ())
        if followed is None:
            return [], False
        changes += followed.changes
        random |= followed.random
    changes = list(dict.fromkeys(changes))
    inside = [c for c in changes if any(edits.node_start(m) <= c.start < edits.node_end(m) for m in maps)]
    order = [*(c for c in run if c not in maps), *maps]
    texts = [chain_edits.operation_text(source, c, inside) for c in order]
    return [*chain_edits.replace_operations(source, run, texts), *(c for c in changes if c not in inside)], random
