"""A loop that is unrolled into the graph: many independent, similar ops from one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slowtrain.causes.compute.handwritten_op.single_op_cure import (
    LEFT_SHARE,
    LOOP_SPREAD,
    MIN_SIMILAR_OPS,
    STARTS_SAVED_SHARE,
    single_op_cures,
)
from slowtrain.model import Category, Evidence, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.locations import source_locations
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work, step_bound
from slowtrain.trace.signals.host.source_lines import changes_variables
from slowtrain.whatif import Drop, Remedy, Skip

# Share of a line's ops that the line makes itself. A line with less calls layers, which are separate ops.
MIN_OWN_OP_SHARE = 0.5
MAX_CHAINED_SHARE = 0.3  # of the similar ops, each of which needs the one before: no single op replaces these
ADD_OP = re.compile(r"add(?:_\d+)?$")


@dataclass(frozen=True)
class UnrolledLoop:
    """``count`` similar ops, which take ``ms`` and ``start_ms`` per step. ``left_share`` of ``ms`` stays.

    ``category``: the part of the step in which the ops compute. ``kinds``: the most frequent ops, in words.
    """

    count: int
    kinds: str
    category: Category
    ms: float
    start_ms: float
    left_share: float
    compile_ms: float
    where: tuple[Place, ...]

    @property
    def saved_by_category(self) -> dict[Category, float]:
        """What starting and compiling ops costs is proportional to their number."""
        return {
            self.category: (1 - self.left_share) * self.ms,
            Category.DISPATCH: STARTS_SAVED_SHARE * self.start_ms,
        }

    @property
    def saved_ms(self) -> float:
        return sum(self.saved_by_category.values())

    def evidence(self) -> Evidence:
        compiling = (
            f", and XLA takes about {format_number(self.compile_ms / 1e3)} s to compile them" if self.compile_ms else ""
        )
        saved = {str(category): ms for category, ms in self.saved_by_category.items()}
        return Evidence(
            f"a loop makes {self.count:,} similar ops in the graph ({self.kinds}); "
            f"they take {format_number(self.ms + self.start_ms)} ms of each step{compiling}",
            {**saved, "ops": float(self.count), "compile_ms": self.compile_ms},
            self.where,
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        compiling = [Skip(self.compile_ms, step_bound.COMPILE_SPREAD)] if self.compile_ms else []
        return [drop_loop_ops(trace, self.saved_by_category), *compiling]

    def scope_in(self, trace: Trace) -> str:
        """The run, if compiling the loop's ops costs more than all steps."""
        return "run" if self.compile_ms > self.saved_ms * len(trace.steps) else "step"

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        return single_op_cures(trace, self.where)


def drop_loop_ops(trace: Trace, saved: dict[Category, float]) -> Drop:
    """The remedy for the ops of a loop in the graph."""
    if trace.step_ms and not trace.on_accelerator:
        saved = op_work.ms_with_warm_caches(trace, saved, sum(saved.values()) / trace.step_ms)
    return Drop(saved, spread=LOOP_SPREAD)


def find_unrolled_loop(trace: Trace) -> UnrolledLoop | None:
    graph: Mapping[str, Any] = max(
        op_work.training_graphs(trace), key=lambda g: sum((g.get("repeated") or {}).values()), default={}
    )
    similar = graph.get("repeated") or {}
    count = sum(similar.values())
    lines = [row for row in graph.get("lines") or () if len(row) == 4 and row[3] >= max(MIN_OWN_OP_SHARE * row[2], 1)]
    # A sum to which each iteration adds is a chain as well. One op can do it, because the terms are independent.
    adds = sum(n for key, n in similar.items() if ADD_OP.match(_op_name(key)))
    if count < MIN_SIMILAR_OPS or not lines or graph.get("chain", 0) - adds > MAX_CHAINED_SHARE * (count - adds):
        return None
    own = [row for row in lines if not changes_variables(trace, Place(str(row[0]), int(row[1])))]
    if sum(row[3] for row in own) < MIN_OWN_OP_SHARE * sum(row[3] for row in lines):
        return None
    share = sum(row[2] for row in lines) / sum(row[2] for row in graph["lines"])
    ms = _similar_ops_ms(trace, similar, share)
    kinds = ", ".join(f"{n:,} {_op_name(key)}" for key, n in sorted(similar.items(), key=lambda i: -i[1])[:3])
    return UnrolledLoop(
        count,
        kinds,
        Category.DEVICE if trace.kernels is not None else Category.UNATTRIBUTED,
        ms,
        step_bound.op_start_ms(trace) * share,
        _left_share(trace, graph, ms),
        step_bound.xla_compile_ms(trace, share),
        _loop_places(trace, [Place(str(row[0]), int(row[1])) for row in lines[:3]]),
    )


def _op_name(key: str) -> str:
    return key.rpartition("/")[2]


def _left_share(trace: Trace, graph: Mapping[str, Any], ms: float) -> float:
    """Share of the ops' computing that stays. The one op has the same arithmetic to do, but nothing beside it."""
    products = any(m.match(_op_name(key)) for key in graph["repeated"] for m in framework_names.PRODUCT_PATTERNS)
    multiply_adds = float(graph.get("multiply_adds") or 0) if products and not trace.on_accelerator else 0.0
    arithmetic_ms = op_work.product_ms(trace, multiply_adds)
    if trace.kernels is not None:  # at most what all products take now
        share = op_work.op_time_share(trace.kernels, lambda o: o.matmul or o.conv)
        arithmetic_ms = min(arithmetic_ms, trace.mean(Category.DEVICE) * share)
    return max(LEFT_SHARE, min(arithmetic_ms / ms, 1.0)) if ms else LEFT_SHARE


def _similar_ops_ms(trace: Trace, similar: Mapping[str, int], share: float) -> float:
    """What similar ops and their gradients compute in each step."""
    if trace.kernels is None:
        return share * trace.mean(Category.UNATTRIBUTED)
    scopes = {key.rpartition("/")[0] for key in similar}
    unscoped = {key for key in similar if "/" not in key}  # other ops of the step are outside of all scopes as well
    unnumbered = step_bound.are_steps_xla_compiled(trace)  # XLA gives similar ops one name

    def is_part(op: op_work.WindowOp) -> bool:
        within = (
            op_work.is_in_scopes(op, scopes, unnumbered=unnumbered)
            or framework_names.NAME_NUMBER.sub("", op.root) in unscoped
        )
        return (within or op_work.adds_up_gradients(op)) and not op.update

    return trace.mean(Category.DEVICE) * op_work.op_time_share(trace.kernels, is_part)


def _loop_places(trace: Trace, places: Sequence[Place]) -> tuple[Place, ...]:
    """The lines of the loops' heads, then the lines of the ops."""
    heads = (
        head for place in places for head in source_locations.file_places(trace, place, source_locations.loop_line)
    )
    return source_locations.merge_places(heads, places)
