"""Where the cause memory/host-leak shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.memory.host_leak import kept_values
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules import spots
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Gradients or other tensors of each step that a list keeps, arrays that grow, ops made in a session's loop."""
    known = (
        *kept_values.find_kept_gradients(source),
        *kept_values.find_added_ops(source),
        *kept_values.find_in_loop_statements(source),
    )
    seen = {found.node for found in known}
    for found in (*known, *(one for one in kept_values.find_reached_appends(source) if one.node not in seen)):
        cure = Prescription("advice", Effect.EXACT, found.cure)
        yield spots.node_spot(found.node, found.says, cure)
