"""A map, or the maps inside an interleave, transform one element at a time while cores are idle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.input.sequential_map.interleaved_maps import SequentialInterleave, find_sequential_interleave
from slowtrain.causes.input.sequential_map.user_map import SequentialUserMap, find_sequential_map
from slowtrain.model import Category, Evidence, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy


class SequentialMap(Cause[SequentialUserMap | SequentialInterleave]):
    """A `map` transforms one element after the other while other cores have nothing to do."""

    title = "Map runs one call at a time"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    symptoms = frozenset({Category.INPUT})
    words = (".map",)

    def find(self, trace: Trace) -> SequentialUserMap | SequentialInterleave | None:
        return find_sequential_map(trace) or find_sequential_interleave(trace)

    def evidence(self, trace: Trace, finding: SequentialUserMap | SequentialInterleave) -> Evidence:
        return finding.evidence(trace)

    def remedies(self, trace: Trace, finding: SequentialUserMap | SequentialInterleave) -> Sequence[Remedy]:
        return finding.remedies(trace)

    def cures(self, trace: Trace, finding: SequentialUserMap | SequentialInterleave) -> Iterable[Prescription]:
        return finding.cures(trace)
