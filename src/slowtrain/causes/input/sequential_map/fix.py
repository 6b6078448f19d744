"""Lets a map or an interleave make several calls at once."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.sequential_map import SequentialInterleave, SequentialUserMap
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.locations.edits import input_edits, recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals.input.input_feed import user_lines


def find_cures(trace: Trace, finding: SequentialUserMap | SequentialInterleave) -> Iterable[Prescription]:
    return _map_cures(trace, finding) if isinstance(finding, SequentialUserMap) else _interleave_cures(trace, finding)


def _interleave_cures(trace: Trace, finding: SequentialInterleave) -> Iterable[Prescription]:
    found = recorded_edits.first_applicable(trace, user_lines(finding.node)[:1], dataset_edits.parallelise_interleave)
    yield Prescription("edit", Effect.EXACT, "give interleave num_parallel_calls=tf.data.AUTOTUNE", edits=found)


def _map_cures(trace: Trace, finding: SequentialUserMap) -> Iterable[Prescription]:
    line, written = input_edits.mapped_function_line(finding.node), finding.node.written
    is_deterministic = written is not None and bool(written.ops) and not written.random
    yield Prescription(
        "edit",
        Effect.EXACT if is_deterministic else Effect.EQUIVALENT,
        "give map num_parallel_calls=tf.data.AUTOTUNE",
        edits=recorded_edits.first_applicable(
            trace, user_lines(finding.node)[:1], lambda s, at: dataset_edits.parallelise_map(s, at, line)
        ),
        treatment="parallel-map",
    )
