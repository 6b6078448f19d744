"""Where the cause input/uncached-input shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.uncached_input import rebuilt_caches
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.number_text import format_number
from slowtrain.script.lint_rules.input import dataset_stages, repeated_work
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Work that is the same in every epoch, if literals of the file show that its result is small."""
    known = list(repeated_work.repeated_map_work(source))
    for one in known:
        effect = Effect.EXACT if one.exact else Effect.EQUIVALENT
        says = f"put .cache() behind this {node_lookup.called_name(one.call)}"
        cure = Prescription("edit", effect, says, edits=one.edits)
        says = f"every epoch does {one.does} again for each element; "
        says += f"all results take {format_number(one.bytes / 2**20)} MiB"
        generator = (
            node_lookup.argument_value(one.call, "generator", 0)
            if "generator" in node_lookup.called_name(one.call)
            else None
        )
        place = (
            call_index.operation_range(one.call)
            if generator is None
            else (edits.node_start(generator), edits.node_end(generator))
        )
        yield Spot(*place, f"{says} at most", cure)
    seen = {one.call for one in known}
    early_ones = list(repeated_work.early_caches(source))
    for more, size in dataset_stages.repeated_stages(source, cached=not early_ones):
        if more.call in seen:
            continue
        seen.add(more.call)
        says = f"every epoch does {more.says} again for each element"
        says += f"; all results take {format_number(size / 2**20)} MiB at most" if size else "; its result is small"
        cure = Prescription("advice", Effect.EQUIVALENT, "put .cache() behind this map, if all results fit in memory")
        yield Spot(*call_index.operation_range(more.call), says, cure)
    for early in early_ones:
        says = "put .cache() behind the map that does it, if its results fit in memory"
        cure = Prescription("advice", Effect.EXACT, says)
        kept = "names only" if early.names else "elements before the work on them"
        says = f"this cache keeps {kept}: every epoch does {early.does} again for each element"
        yield Spot(*call_index.operation_range(early.cache), says, cure)
    for each in rebuilt_caches.find_rebuilt_caches(source):
        says = "build it once, before the loop; put what differs between iterations behind its cache"
        cure = Prescription("advice", Effect.EQUIVALENT, says)
        says = "each iteration builds the data set again, with a cache that is never read: "
        says += f"every pass does {each.does} again"
        yield Spot(edits.node_start(each.built), edits.node_end(each.built), says, cure)
