"""A cache of a data set that is never read: each pass builds it again, or no pass fills it to its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slowtrain.model import Effect, Evidence, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.locations.edits import input_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals import buffers_and_caches
from slowtrain.trace.signals.buffers_and_caches import UnreadCache
from slowtrain.trace.signals.input_feed import as_ready_in_memory, user_lines
from slowtrain.whatif import Supply, takes_step_cores

# Why it never fills, and what to do, by `UnreadCache.why`.
UNFILLED_REASONS = {
    "take": ("take() behind it stops each pass before its end", "put take() in front of cache()"),
    "repeat": ("repeat() in front of it has no end", "put repeat() behind cache()"),
    "generator": ("the generator in front of it has no end", "let the generator end after one pass: cache().repeat()"),
}


@dataclass(frozen=True)
class UnreadCacheFinding:
    """The cache, in a frozen class that has the methods of a finding."""

    unread: UnreadCache

    def evidence(self, trace: Trace) -> Evidence:
        cache, times = self.unread.cache, self.unread.times
        ms = sum(n.ms for n in self.unread.pipe.upstream_nodes(cache))
        numbers = {"work_ms": ms, "epochs": float(times)}
        if self.unread.why in UNFILLED_REASONS:
            reason, _ = UNFILLED_REASONS[self.unread.why]
            return Evidence(
                f"the cache never fills, because {reason}: {format_number(ms)} ms of work for each batch is done in "
                f"each of {times} epochs, and what the cache keeps is never read",
                numbers,
                user_lines(cache),
            )
        return Evidence(
            f"the data set was built {times} times with a cache of its own, each for one pass: these caches are never "
            f"read, and {format_number(ms)} ms of work for each batch is done in every pass",
            numbers,
            tuple(dict.fromkeys((*input_edits.rebuilding_loops(trace, cache), *user_lines(cache)))),
        )

    def supply_once_filled(self) -> Supply:
        """The pipeline once its cache is read: the work in front of it is done in the first pass only."""
        pipe, cache, times = self.unread.pipe, self.unread.cache, self.unread.times
        size = cache.written.element_bytes or 0 if cache.written is not None else 0
        spared = [as_ready_in_memory(n, 0.0) for n in pipe.upstream_nodes(cache)]
        read = as_ready_in_memory(cache, cache.elements, size * cache.elements)
        # Nothing shows whether a generator without end repeats the same elements.
        spread = (0.2, 1.1) if self.unread.why == "generator" else (0.8, 1.1)
        return Supply(pipeline=pipe.with_nodes(read, *spared), share=1 - 1 / times, spread=spread)

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        why = self.unread.why
        if why in UNFILLED_REASONS:
            drawn = any(w.random or w.family == "Shuffle" for w in self.unread.pipe.written)
            changes = why == "generator" or drawn  # the same elements again, instead of other ones each time
            effect = Effect.CHANGES_TRAINING if changes else Effect.EXACT
            yield Prescription("edit", effect, UNFILLED_REASONS[why][1], later=True)
            return
        says = "build the data set once, before the loop: the first pass fills its cache, the others read it"
        yield Prescription("advice", Effect.EQUIVALENT, says)


def find_unread_cache(trace: Trace) -> UnreadCacheFinding | None:
    found = buffers_and_caches.find_unread_cache(trace, crowds=takes_step_cores(trace))
    return UnreadCacheFinding(found) if found is not None else None
