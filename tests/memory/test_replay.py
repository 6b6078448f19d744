"""Sizes at batches that were never run, and whether they fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slowtrain.memory.allocation_record import AllocationRecord, AllocationRequest, MeasuredBatch, scale_requests
from slowtrain.memory.peak_forecast import (
    MIN_MARGIN_SHARE,
    MemoryPool,
    forecast_peaks,
    largest_fitting_batch,
    layer_name,
    peak_need,
    replay_requests,
    temporary_part,
)
from slowtrain.verify.batch_sizes import memory_need

KIB = 1024


def request(
    op: str,
    size: int,
    taken: int,
    released: int | None,
    *,
    kind: str = "output",
    line: str = "tf_Compute",
    **more: object,
) -> AllocationRequest:
    shape = more.get("shape", ())
    assert isinstance(shape, tuple)
    return AllocationRequest(op, kind, size, shape, taken, released, line, released_by=str(more.get("by", line)))


def record(batch: int, extra: tuple[AllocationRequest, ...] = ()) -> MeasuredBatch:
    """Weights that stay, an activation and a gradient that follow the batch, a workspace that does not."""
    requests = (
        request("VarHandleOp", 64 * KIB, 0, None),
        request("model/dense_1/Relu", 4 * KIB * batch, 1, 6),
        request("model/dense_1/MatMul", 16 * KIB, 2, 3, kind="temp"),
        request("gradient_tape/model/dense_1/MatMul", 4 * KIB * batch, 4, 5),
        *extra,
    )
    return MeasuredBatch(batch, AllocationRecord("GPU_0_bfc", requests, 0, (64 + 8 * batch) * KIB))


def test_sizes_are_lines_through_two_records() -> None:
    found = scale_requests(record(8), record(16))
    assert found.sizes(100) == [64 * KIB, 400 * KIB, 16 * KIB, 400 * KIB]
    assert scale_requests(record(8), record(16), order=record(8)).requests is not found.requests


def test_the_peak_of_a_record_is_that_of_its_replay() -> None:
    found = forecast_peaks([record(8), record(16), record(32)])
    for measured in found.measured:
        assert found.outcome(measured.batch).peak_bytes == measured.record.peak_bytes
    assert found.error_share == 0


def test_a_forecast_that_was_too_low_leaves_a_margin() -> None:
    odd = record(32)
    worse = MeasuredBatch(32, AllocationRecord("GPU_0_bfc", odd.record.requests, 0, int(odd.record.peak_bytes * 1.25)))
    found = forecast_peaks([record(8), record(16), worse])
    assert found.margin_share == pytest.approx(0.25)
    pool = MemoryPool(64 * KIB + 8 * KIB * 100, growth=False)
    assert found.largest_fit(pool) < forecast_peaks([record(8), record(16), record(32)]).largest_fit(pool)


@pytest.mark.parametrize("batch", [40, 100, 333])
def test_the_largest_batch_fits_and_the_next_does_not(batch: int) -> None:
    found = forecast_peaks([record(8), record(16)])
    needed = (64 + 8 * batch) * KIB  # what is in use at the peak, and the margin above it
    pool = MemoryPool(int(needed / (1 - found.margin_share)) + KIB, growth=False)
    assert found.margin_share == MIN_MARGIN_SHARE
    assert found.largest_fit(pool) == batch
    assert found.fits(batch, pool)
    assert not found.fits(batch + 1, pool)


def test_a_record_in_regions_and_its_replay_in_one_are_told_apart() -> None:
    one, other = record(8), record(16)
    grown = replace(other, record=replace(other.record, allocator="bfc_cpu_allocator_for_gpu", peak_bytes=300 * KIB))
    found = forecast_peaks([one, grown])
    (pool, growing) = (MemoryPool(1 << 30, growth=False), MemoryPool(1 << 30, growth=True))
    peak = found.outcome(16).peak_bytes
    told = replace(found, measured=(one, replace(grown, record=replace(grown.record, peak_bytes=peak))))
    (said,) = memory_need._replay_difference_notes(told, 16, peak // 2, pool)
    assert "are in regions that grow" in said
    assert not list(memory_need._replay_difference_notes(told, 16, peak // 2, growing))
    assert not list(memory_need._replay_difference_notes(told, 16, peak, pool))
    assert not list(
        memory_need._replay_difference_notes(found, 16, peak // 2, pool)
    )  # nor do regions tell why: nobody knows


def test_peaks_that_hang_on_the_order_of_ops_are_told_apart() -> None:
    """In the second record the gradient comes when the activation has gone."""
    one, other = record(8), record(16)
    requests = tuple(
        replace(r, taken=7, released=8) if r.op.startswith("gradient_tape") else r for r in other.record.requests
    )
    alike, apart = (
        forecast_peaks([one, other]),
        forecast_peaks([one, replace(other, record=replace(other.record, requests=requests))]),
    )
    pool = MemoryPool(1 << 30, growth=False)
    assert not list(memory_need._order_variation_notes(alike, 16, pool))
    (said,) = memory_need._order_variation_notes(apart, 1 << 14, pool)
    assert said.endswith("a step of 16,384 samples takes 64 to 128 MiB")


def test_where_no_sample_fits_the_largest_is_none() -> None:
    assert forecast_peaks([record(8), record(16)]).largest_fit(MemoryPool(32 * KIB, growth=False)) == 0


def test_what_comes_once_a_sample_is_counted_for_every_sample() -> None:
    def fed(batch: int) -> MeasuredBatch:
        return record(batch, tuple(request("", 5000, 10 + i, None, line="tf_data") for i in range(batch)))

    found = scale_requests(fed(8), fed(16))
    assert sum(found.sizes(64)[4:]) == pytest.approx(64 * 5120, rel=0.01)


def test_functions_are_matched_whatever_their_number() -> None:
    small = record(8, (request("__inference_train_12", 9000, 10, 11),))
    large = record(16, (request("__inference_train_99", 9000, 10, 11),))
    assert scale_requests(small, large).sizes(1000)[4] == 9000


def test_a_copy_that_only_one_run_made_keeps_its_size() -> None:
    large = record(16, (request("adam/Assign_2", 64 * KIB, 10, 11, shape=(128, 128)),))
    assert scale_requests(record(8), large).sizes(1000)[4] == 64 * KIB
    unknown = record(16, (request("model/other", 48 * KIB, 10, 11, shape=(16, 768)),))
    assert scale_requests(record(8), unknown).sizes(160)[4] == 480 * KIB


def test_batches_must_ascend() -> None:
    with pytest.raises(ValueError, match="two batches"):
        scale_requests(record(16), record(16))
    with pytest.raises(ValueError, match="two batches"):
        forecast_peaks([record(16)])


def test_a_request_waits_for_the_workspace_of_another_thread() -> None:
    """As TensorFlow's does: the other op ends by itself and gives it back."""
    requests = (
        request("a", 512 * KIB, 0, 3, kind="temp", line="tf_Compute/1"),
        request("b", 600 * KIB, 1, 2, kind="temp", line="tf_Compute/2"),
    )
    alike = [MeasuredBatch(b, AllocationRecord("GPU_0_bfc", requests, 0, 1112 * KIB)) for b in (8, 16)]
    assert replay_requests(scale_requests(*alike), 8, MemoryPool(1024 * KIB, growth=False)).fits
    mine = [
        MeasuredBatch(
            b,
            AllocationRecord(
                "GPU_0_bfc", tuple(request(r.op, r.size_bytes, r.taken, r.released) for r in requests), 0, 0
            ),
        )
        for b in (8, 16)
    ]
    assert not replay_requests(scale_requests(*mine), 8, MemoryPool(1024 * KIB, growth=False)).fits


def gradients(readers: dict[str, tuple[str, ...]]) -> MeasuredBatch:
    """A filter's gradient is at work in one thread when another asks for memory; it ends and frees what it read."""
    requests = (
        request("activation", 400 * KIB, 1, 5, line="main", by="tf_Compute/1"),
        request("filter_gradient", 100 * KIB, 0, 6, line="tf_Compute/1"),
        request("input_gradient", 600 * KIB, 2, 4, line="tf_Compute/2"),
    )
    return MeasuredBatch(8, AllocationRecord("GPU_0_bfc", requests, 0, 0, readers))


@pytest.mark.parametrize(
    ("readers", "fits"),
    [
        ({"activation": ("filter_gradient",)}, True),
        ({"activation": ("shaped",), "shaped": ("filter_gradient",)}, True),  # handed on without memory of its own
        ({"activation": ("filter_gradient", "input_gradient")}, False),  # the one that waits reads it, too
        ({}, False),  # who reads it is not known
    ],
)
def test_a_request_waits_for_what_only_an_op_at_work_still_reads(
    readers: dict[str, tuple[str, ...]], fits: bool
) -> None:
    alike = [MeasuredBatch(b, gradients(readers).record) for b in (8, 16)]
    assert replay_requests(scale_requests(*alike), 8, MemoryPool(1024 * KIB, growth=False)).fits is fits


def test_the_largest_is_found_from_below_and_from_above() -> None:
    for first in (1, 40, 77, 500):
        assert largest_fitting_batch(lambda b: b <= 77, first) == 77


def test_parts_add_up_to_the_peak() -> None:
    found = forecast_peaks([record(8), record(16)])
    outcome = found.outcome(16, holders=True)
    held = peak_need(found.orders[0], 16, outcome, {"trained": 48 * KIB, "optimizer": 16 * KIB})
    assert sum(held.parts.values()) == held.peak_bytes == outcome.peak_bytes
    assert (held.parts["parameters"], held.parts["optimizer"]) == (48 * KIB, 16 * KIB)
    assert held.parts["activations"] == held.parts["gradients"] == 64 * KIB
    assert held.layers == (("dense", 64 * KIB),)


@pytest.mark.parametrize(
    ("op", "kind", "part"),
    [
        ("StatefulPartitionedCall/sequential_1/conv2d_1/Relu", "output", "activations"),
        ("StatefulPartitionedCall/gradient_tape/sequential_1/conv2d_1/Conv2DBackpropInput", "output", "gradients"),
        ("StatefulPartitionedCall/adam/Mul_3", "output", "optimizer"),
        ("IteratorGetNext", "output", "input"),
        ("StatefulPartitionedCall/sequential_1/conv2d_1/convolution", "temp", "workspace"),
        ("", "", "other"),
    ],
)
def test_parts_are_told_by_op(op: str, kind: str, part: str) -> None:
    assert temporary_part(request(op, 1, 0, 1, kind=kind)) == part


def test_layers_are_named_without_model_and_call() -> None:
    assert layer_name("StatefulPartitionedCall/sequential_1/conv2d_1_2/Relu") == "conv2d_1"
    assert layer_name("Relu") == "other"
