"""A map does next to nothing for each of very many elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.input.per_element_map.nested_windows import NestedWindows, find_nested_windows
from slowtrain.causes.input.per_element_map.tiny_maps import TinyMaps, find_tiny_maps
from slowtrain.model import Category, Evidence, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy


class PerElementMap(Cause[NestedWindows | TinyMaps]):
    """A `map` is called for every single element, and starting the call costs more than its work."""

    title = "Map is called for each element"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    symptoms = frozenset({Category.INPUT})
    words = (".map", "flat_map")

    def find(self, trace: Trace) -> NestedWindows | TinyMaps | None:
        return find_nested_windows(trace) or find_tiny_maps(trace)

    def evidence(self, trace: Trace, finding: NestedWindows | TinyMaps) -> Evidence:
        return finding.evidence()

    def remedies(self, trace: Trace, finding: NestedWindows | TinyMaps) -> Sequence[Remedy]:
        return finding.remedies()

    def cures(self, trace: Trace, finding: NestedWindows | TinyMaps) -> Iterable[Prescription]:
        return finding.cures(trace)
