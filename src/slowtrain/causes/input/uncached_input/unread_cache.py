"""A cache of a data set that nobody reads: made anew for each pass, or never filled to its end."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Effect, Evidence, Prescription
from slowtrain.number_text import format_number
from slowtrain.source.cures import input_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals.input import dataset_caches
from slowtrain.trace.signals.input.dataset_caches import UnreadCache
from slowtrain.trace.signals.input.input_feed import as_ready_in_memory, user_lines
from slowtrain.whatif import Supply, takes_step_cores

# Why it never fills, and what to do, by `caching.Unread.why`.
NEVER_FULL = {
    "take": ("take() behind it stops each pass before its end", "put take() in front of cache()"),
    "repeat": ("repeat() in front of it has no end", "put repeat() behind cache()"),
    "generator": ("the generator in front of it has no end", "let the generator end after one pass: cache().repeat()"),
}


def found_in(trace: Trace) -> UnreadCache | None:
    return dataset_caches.find_unread_cache(trace, crowds=takes_step_cores(trace))


def evidence(trace: Trace) -> Evidence | None:
    found = found_in(trace)
    if found is None:
        return None
    ms = sum(n.ms for n in found.pipe.upstream_nodes(found.cache))
    numbers = {"work_ms": ms, "epochs": float(found.times)}
    if found.why in NEVER_FULL:
        return Evidence(
            f"the cache never fills, as {NEVER_FULL[found.why][0]}: {format_number(ms)} ms of work for each batch "
            "is done in "
            f"each of {found.times} epochs, and nobody reads what is kept",
            numbers,
            user_lines(found.cache),
        )
    return Evidence(
        f"the data set was built {found.times} times with a cache of its own, each for one pass: nobody reads what "
        f"they keep, and {format_number(ms)} ms of work for each batch is done in every pass",
        numbers,
        tuple(dict.fromkeys((*input_edits.rebuilding_loops(trace, found.cache), *user_lines(found.cache)))),
    )


def supply(found: UnreadCache) -> Supply:
    """The pipeline once its cache is read: what stands in front of it works in the first pass only."""
    pipe, cache = found.pipe, found.cache
    size = cache.written.element_bytes or 0 if cache.written is not None else 0
    kept = [as_ready_in_memory(n, 0.0) for n in pipe.upstream_nodes(cache)]
    read = as_ready_in_memory(cache, cache.elements, size * cache.elements)
    # Of a generator without end nobody knows whether it gives the same again.
    spread = (0.2, 1.1) if found.why == "generator" else (0.8, 1.1)
    return Supply(pipeline=pipe.changed(read, *kept), share=1 - 1 / found.times, spread=spread)


def prescriptions(trace: Trace) -> Iterable[Prescription]:
    found = found_in(trace)
    if found is not None and found.why in NEVER_FULL:
        drawn = any(w.random or w.family == "Shuffle" for w in found.pipe.written)
        changes = found.why == "generator" or drawn  # the same elements again, where they were others each time
        effect = Effect.CHANGES_TRAINING if changes else Effect.EXACT
        yield Prescription("edit", effect, NEVER_FULL[found.why][1], later=True)
        return
    says = "build the data set once, in front of the loop: the first pass fills its cache, the rest read it"
    yield Prescription("advice", Effect.EQUIVALENT, says)
