"""An op is written by hand.

Each module holds one kind of finding, with a finder for it. A finding has ``saved_ms``, ``evidence()``, ``remedies()``,
``cures()`` and ``scope_in()``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.compute.handwritten_op.eager_loop import EagerLoop, find_eager_loop
from slowtrain.causes.compute.handwritten_op.graph_loop import GraphLoop, find_graph_loop
from slowtrain.causes.compute.handwritten_op.one_hot_product import OneHotProduct, find_one_hot_product
from slowtrain.causes.compute.handwritten_op.python_callback import PythonCallback, find_python_callback
from slowtrain.causes.compute.handwritten_op.unrolled_loop import UnrolledLoop, find_unrolled_loop
from slowtrain.model import Evidence, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy

HandwrittenOpFinding = OneHotProduct | UnrolledLoop | GraphLoop | PythonCallback | EagerLoop


class HandwrittenOp(Cause[HandwrittenOpFinding]):
    """Code computes step by step what one TensorFlow op computes."""

    title = "An op is written by hand"
    needs = frozenset({Signal.STEPS})
    recorded = frozenset({Signal.TRACES, Signal.LINES})  # the graph with its source lines
    words = ("one_hot", "add_weight", "map_fn", "GradientTape", ".fit")

    def find(self, trace: Trace) -> HandwrittenOpFinding | None:
        """The kind of finding that costs most."""
        findings = (
            find_one_hot_product(trace),
            find_unrolled_loop(trace),
            find_graph_loop(trace),
            find_python_callback(trace),
            find_eager_loop(trace),
        )
        return max((f for f in findings if f is not None), key=lambda f: f.saved_ms, default=None)

    def evidence(self, trace: Trace, finding: HandwrittenOpFinding) -> Evidence:
        return finding.evidence()

    def remedies(self, trace: Trace, finding: HandwrittenOpFinding) -> Sequence[Remedy]:
        return finding.remedies(trace)

    def scope_in(self, trace: Trace, finding: HandwrittenOpFinding) -> str:
        return finding.scope_in(trace)

    def cures(self, trace: Trace, finding: HandwrittenOpFinding) -> Iterable[Prescription]:
        return finding.cures(trace)
