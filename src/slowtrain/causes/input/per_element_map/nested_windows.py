"""A data set that is made for each element, as by ``window().flat_map()``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slowtrain.causes.input.per_element_map import fix
from slowtrain.model import Effect, Evidence, Prescription
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import NestedDatasets, find_nested_datasets
from slowtrain.whatif import Remedy, Supply


@dataclass(frozen=True)
class NestedWindows:
    nested: NestedDatasets

    def evidence(self) -> Evidence:
        count = self.nested.count
        says = f"{count:.0f} data sets are made for each batch, one for each element"
        return Evidence(says, {"calls_per_step": count, "map_ms": self.nested.node.ms}, (self.nested.place,))

    def remedies(self) -> Sequence[Remedy]:
        return [Supply(pipeline=self.nested.in_batches(), nested=True, spread=(0.6, 1.1))]

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        says = "gather whole batches by index (or timeseries_dataset_from_array) in place of window().flat_map()"
        made = recorded_edits.first_applicable(trace, (self.nested.place,), fix.gather_windows)
        yield Prescription("edit" if made else "advice", Effect.EXACT, says, edits=made)


def find_nested_windows(trace: Trace) -> NestedWindows | None:
    nested = find_nested_datasets(trace, of_files=False)
    return NestedWindows(nested) if nested is not None else None
