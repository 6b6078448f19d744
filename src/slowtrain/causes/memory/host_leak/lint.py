"""Where the cause memory/host-leak shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.memory.host_leak import growing
from slowtrain.causes.memory.host_leak import kept as spotted
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Gradients or other tensors of each step kept in a list; arrays that grow; ops made in a session's loop."""
    known = (*spotted.gradients(source), *spotted.ops(source), *growing.everywhere(source))
    seen = {found.node for found in known}
    for found in (*known, *(one for one in growing.reached(source) if one.node not in seen)):
        cure = Prescription("advice", Effect.EXACT, found.cure)
        yield Spot(edits.node_start(found.node), edits.node_end(found.node), found.says, cure)
