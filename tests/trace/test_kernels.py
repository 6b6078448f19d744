"""What a window of our own recording tells of ops, on profiles made by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from slowtrain.columns.device import Kernels
from slowtrain.profile.profile_steps import StepTimes
from slowtrain.profile.summaries import window_ops
from slowtrain.trace.signals.input_feed import profiled_op_ms

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package
from .messages import entry, event, nested, number, space

MS = 1_000_000_000  # picoseconds


def line(key: int, name: str, *events: bytes) -> bytes:
    return nested(3, number(1, key), nested(2, name.encode()), *events)


def window_kernels(path: Path, data: bytes, *starts_ms: float) -> Kernels | None:
    """What the host ran in steps of 10 ms, of a window with this profile."""
    path.write_bytes(data)
    starts = np.array(starts_ms)
    window = window_ops.open_window(path, 0.0, 0.0, StepTimes(starts, starts + 10.0, ""))
    return window_ops.host_window_ops(window.space, window.origin_ms, window.steps, whole=True)


def test_ops_inside_the_steps_are_the_steps(tmp_path: Path) -> None:
    found = window_kernels(tmp_path / "w.pb", space(line(1, "tf_XLAEigen/1", event(1, 12 * MS, 4 * MS))), 10.0, 20.0)
    assert found is not None
    assert found.by_type["MatMul"] == pytest.approx((2.0, 0.5))
    assert found.by_input == {}


@pytest.mark.parametrize("at_ms", [2, 45], ids=["before", "after"])
def test_a_buffer_that_is_filled_outside_the_steps_is_input(tmp_path: Path, at_ms: int) -> None:
    """A large shuffle buffer is filled before the steps that drain it, in the window's first step or between epochs."""
    computing = line(1, "python/1", event(1, 12 * MS, 4 * MS))
    filling = line(2, "tf_data_iterator_resource/2", event(1, at_ms * MS, 6 * MS))
    found = window_kernels(tmp_path / "w.pb", space(computing, filling), 10.0, 20.0)
    assert found is not None
    assert found.by_input["MatMul"] == pytest.approx((3.0, 0.5))


def test_of_thousands_of_ops_alike_none_is_lost(tmp_path: Path) -> None:
    """An unrolled loop makes ops that differ in their numbers alone; they are counted whole, by one's name."""
    events = [event(9 + i, 12 * MS + i * MS // 1000, MS // 1000) for i in range(900)]
    named = b"".join(entry(4, 9 + i, f"m/bank_1/mul_{i}:Mul") for i in range(900))
    found = window_kernels(tmp_path / "w.pb", space(line(1, "tf_XLAEigen/1", *events), more=named), 10.0)
    assert found is not None
    assert sum(count for _, count in found.by_name.values()) == pytest.approx(900)
    assert len(found.by_name) == window_ops.MAX_NAMED_OPS + 1
    assert all(name.startswith("m/bank_1/mul_") for name in found.by_name)


def test_data_sets_that_are_made_for_elements_are_counted_where_they_begin(tmp_path: Path) -> None:
    """The op that makes one is too short to be profiled once TensorFlow knows it; the iterator's beginning is not."""
    computing = line(1, "python/1", event(1, 12 * MS, 4 * MS))
    events = [event(9, 12 * MS + i * MS // 10, MS // 100) for i in range(64)]
    named = entry(4, 9, "MakeIterator::BatchDatasetV2#id=7#")
    found = window_kernels(
        tmp_path / "w.pb", space(computing, line(2, "tf_data_iterator_resource/2", *events), more=named), 10.0, 20.0
    )
    assert found is not None
    assert found.by_input == {"BatchDatasetV2": pytest.approx((0.32, 32.0))}


@pytest.mark.parametrize(("calls", "expected"), [(0, None), (64, 0.0)], ids=["the buffer was full", "too short"])
def test_a_window_in_which_no_function_of_the_input_ran_says_nothing_of_its_ops(
    tmp_path: Path, calls: int, expected: float | None
) -> None:
    """Of a shuffle that holds the whole epoch: the steps of a window drain it, and nothing is mapped meanwhile."""
    computing = line(1, "python/1", event(1, 12 * MS, 4 * MS))
    mapping = [event(9, 12 * MS + i * MS // 10, MS // 100) for i in range(calls)]
    named = entry(4, 9, "InstantiatedCapturedFunction::RunAsync#id=7#")
    found = window_kernels(
        tmp_path / "w.pb", space(computing, line(2, "tf_data_iterator_resource/2", *mapping), more=named), 10.0, 20.0
    )
    assert found is not None
    assert found.input_calls == calls / 2
    trace = parse_drawing("""
    step    1111111111
    input   iiiiiii...
    device  .......kkk
    @pipeline Slices ms=0.1 elements=16 > ParallelMapV2 ms=4 elements=16 parallelism=2 line=12
    detail={"ops":{"Mul":150}} > Batch ms=0.1
    """)
    assert trace.pipeline is not None
    (node,) = (n for n in trace.pipeline.nodes if n.family == "Map")
    assert profiled_op_ms(replace(trace, kernels=found), node) == expected
