"""The same work is done again in every epoch, and its result would fit in memory or on the disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.input.uncached_input.repeated_work import RepeatedWork, find_repeated_work, shuffle_fill_remedies
from slowtrain.causes.input.uncached_input.unread_cache import UnreadCacheFinding, find_unread_cache
from slowtrain.model import Category, Evidence, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy


class UncachedInput(Cause[RepeatedWork | UnreadCacheFinding]):
    """Every epoch reads and transforms the same elements again, though the results would fit in memory."""

    title = "The same input is made again every epoch"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    recorded = frozenset({Signal.WRITTEN})
    symptoms = frozenset({Category.INPUT})
    words = (".map", "from_generator")
    beside = ("Dataset", "from_generator", "TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")

    def find(self, trace: Trace) -> RepeatedWork | UnreadCacheFinding | None:
        repeated = find_repeated_work(trace)
        if repeated is None:
            return find_unread_cache(trace)
        return repeated if repeated.room is not None else None

    def evidence(self, trace: Trace, finding: RepeatedWork | UnreadCacheFinding) -> Evidence:
        return finding.evidence(trace)

    def remedies(self, trace: Trace, finding: RepeatedWork | UnreadCacheFinding) -> Sequence[Remedy]:
        if isinstance(finding, RepeatedWork):
            return finding.remedies(trace)
        supply = finding.supply_once_filled()
        return [supply, *shuffle_fill_remedies(trace, supply.share)]

    def scope_in(self, trace: Trace, finding: RepeatedWork | UnreadCacheFinding) -> str:
        return finding.scope(trace) if isinstance(finding, RepeatedWork) else self.scope

    def cures(self, trace: Trace, finding: RepeatedWork | UnreadCacheFinding) -> Iterable[Prescription]:
        return finding.cures(trace)
