"""The knee and the line, of points as they might be measured."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slowtrain.errors import InputError
from slowtrain.memory.allocation_record import AllocationRecord, AllocationRequest
from slowtrain.model.measurements import Device, Point
from slowtrain.report import sizing as report
from slowtrain.verify.batch_sizes import batch_probe, memory_need, throughput_curve
from slowtrain.verify.batch_sizes.batch_probe import MAX_EXTRAPOLATION_FACTOR, BatchProbes, _next_batch
from slowtrain.verify.batch_sizes.throughput_curve import find_knee, fit_step_line
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Script

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

CARD = Device(
    "a T4", 13627 << 20, "the memory that TensorFlow took on an unused Tesla T4, according to its own log", "card"
)
STEPS = """
step   1111222233334444
device kkkkkkkkkkkkkkkk
@steps source=fit size={batch}
@fact devices=[{{"kind":"CPU"}}] machine={{"cpu":{{"model":"Drawn"}}}} sources={{"a.py":"fit()"}}
@fact keras={{"backend":"{on}"}}
"""


def points(*, fixed_ms: float, per_sample_ms: float, most: int, noise: float = 0.01) -> list[Point]:
    found = []
    batch = 1
    while batch <= most:
        ms = fixed_ms + per_sample_ms * batch
        rate = 1e3 * batch / ms
        found.append(Point(batch, ms, rate, rate * (1 - noise), rate * (1 + noise)))
        batch *= 2
    return found


@pytest.mark.parametrize(("fixed", "slope"), [(4.0, 0.1), (1.0, 0.01), (10.0, 1.0)])
def test_the_knee_is_where_a_doubling_gains_a_tenth(fixed: float, slope: float) -> None:
    """A doubling from b gains fixed / (fixed + 2 slope b), so the knee lies at 4.5 fixed / slope."""
    found = find_knee(points(fixed_ms=fixed, per_sample_ms=slope, most=4096))
    assert found is not None
    assert 4.5 * fixed / slope <= found < 9 * fixed / slope


def test_there_is_no_knee_where_the_last_doubling_gained() -> None:
    assert find_knee(points(fixed_ms=4.0, per_sample_ms=0.01, most=256)) is None


def test_one_doubling_that_was_disturbed_is_no_knee() -> None:
    known = points(fixed_ms=4.0, per_sample_ms=0.01, most=256)
    slow = known[3]
    known[3] = Point(slow.batch, slow.step_ms * 2, slow.samples_per_s / 2, slow.low / 2, slow.high / 2)
    assert find_knee(known) is None


def test_the_intervals_tell_how_sure_the_knee_is() -> None:
    known = points(fixed_ms=4.0, per_sample_ms=0.1, most=4096, noise=0.02)
    low, middle = find_knee(known, optimism=-1), find_knee(known)
    assert low is not None
    assert middle is not None
    assert low <= middle
    high = find_knee(known, optimism=1)
    assert high is None or high >= middle


def test_the_line_is_found_again() -> None:
    fixed, slope, low, high = fit_step_line(points(fixed_ms=3.0, per_sample_ms=0.25, most=512))
    assert (fixed, slope, low, high) == pytest.approx((3.0, 0.25, 3.0, 3.0))
    assert fit_step_line(points(fixed_ms=3.0, per_sample_ms=0.25, most=2)) == (None, None, None, None)


def test_probes_go_on_until_the_answer_is_near() -> None:
    reached, largest, sizes = 32, 5000, []
    while (step := _next_batch(reached, largest)) is not None:
        assert step <= 4 * reached
        sizes.append(reached := step)
    assert sizes == [128, 512, 2048, 2500]
    assert largest <= MAX_EXTRAPOLATION_FACTOR * reached
    assert _next_batch(32, 10) == 5
    assert _next_batch(32, 0) is None


def told(monkeypatch: pytest.MonkeyPatch, folder: Path, on: str) -> Bench:
    """A script that is told instead of run: a batch of 32, and steps that take as long at any."""

    ran = [32]

    def run(_: BatchProbes, batch: int | None, *__: Any, **___: Any) -> Probe:
        ran[0] = batch or 32
        return Probe(folder, 4.0, None, 1.0, False, 1.0)

    bench = Bench(Script("a.py"), folder, time.monotonic() + 600)
    monkeypatch.setattr(BatchProbes, "run", run)
    traced = SimpleNamespace(load_recording=lambda _: parse_drawing(STEPS.format(batch=ran[0], on=on)))
    monkeypatch.setattr(throughput_curve, "recording_trace", traced)
    monkeypatch.setattr(batch_probe, "recording_trace", traced)
    return bench


def test_a_curve_is_of_the_device_that_was_timed_with_the_notes_of_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench = told(monkeypatch, tmp_path, "tensorflow")

    def measure(known: BatchProbes, _: None) -> Any:
        with pytest.raises(InputError, match="requested no memory from TensorFlow's allocators"):
            known.first()
        known.own = 32
        name = "bfc_cpu_allocator_for_gpu"
        ops = (AllocationRequest("dense/MatMul", "output", 1 << 20, (), 0, None, "main"),)
        known.recorded.append(batch_probe.RecordedProbe(64, name, AllocationRecord(name, ops, 0, 1 << 20), {}, 10.0))
        outcome = SimpleNamespace(peak_bytes=1 << 30)
        return SimpleNamespace(
            largest_fit=lambda _: 402, outcome=lambda _: outcome, measured=[SimpleNamespace(batch=64)]
        )  # fmt: skip

    monkeypatch.setattr(throughput_curve, "measure_peaks", measure)
    monkeypatch.setenv("TF_GPU_ALLOCATOR", "cuda_malloc_async")
    found = throughput_curve.measure_curve(bench, CARD)
    assert found.measured_on == {"kind": "CPU", "name": "Drawn"}
    assert any("is taken as 13,627 MiB" in note for note in found.notes)
    assert memory_need.CPU_NOTE in found.notes
    assert any("TF_GPU_ALLOCATOR" in note for note in found.notes)
    said = " ".join(report.batch_text(found).split())
    assert " on CPU: Drawn: " in said
    assert "Limit: batch 402 on a T4 (13.3 GiB), by forecast" in said
    about = json.loads(report.batch_json(found))
    assert (about["measured_on"]["name"], len(about["source_sha256"])) == ("Drawn", 64)


def test_steps_that_tensorflow_does_not_take_are_timed_and_no_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = throughput_curve.measure_curve(told(monkeypatch, tmp_path, "jax"), CARD)
    assert found.batch == 32
    assert [p.batch for p in found.points][:2] == [8, 16]
    assert {p.peak_bytes for p in found.points} == {None}
    assert (found.limit_batch, found.device, found.notes) == (None, None, (throughput_curve.NO_MEMORY_RECORD,))


@pytest.mark.parametrize(("on", "says"), [("jax", "computes with JAX"), ("torch", "computes with PyTorch")])
def test_memory_that_tensorflow_does_not_give_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on: str, says: str
) -> None:
    bench = told(monkeypatch, tmp_path, on)
    with pytest.raises(InputError, match=says) as raised:
        memory_need.measure_memory_need(bench, CARD)
    assert "slowtrain batch times its steps" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_of_a_batch_that_is_known_only_larger_ones_are_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = told(monkeypatch, tmp_path, "tensorflow")
    monkeypatch.setattr(throughput_curve, "measure_peaks", lambda *_: pytest.fail("no memory is asked for"))
    found = throughput_curve.measure_curve(bench, None, own=32)
    assert [p.batch for p in found.points][:3] == [32, 64, 128]
    assert ({p.peak_bytes for p in found.points}, found.limit_batch, found.notes) == ({None}, None, ())
    assert [p.batch for p in throughput_curve.measure_curve(bench, None, own=32, most=100).points] == [32, 64]


def test_a_known_batch_has_to_fit_a_device_all_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = told(monkeypatch, tmp_path, "tensorflow")
    outcome = SimpleNamespace(peak_bytes=1 << 30)
    sized = SimpleNamespace(largest_fit=lambda _: 70, outcome=lambda _: outcome, measured=[SimpleNamespace(batch=64)])
    monkeypatch.setattr(throughput_curve, "measure_peaks", lambda *_: sized)
    monkeypatch.setattr(memory_need, "memory_notes", lambda *_: ())
    found = throughput_curve.measure_curve(bench, CARD, own=32)
    assert [p.batch for p in found.points] == [32, 64]
    assert (found.limit_batch, found.ended) == (70, "batch 128 would not fit")


def test_a_batch_that_nothing_changes_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = told(monkeypatch, tmp_path, "tensorflow")
    monkeypatch.setattr(BatchProbes, "run", lambda *_, **__: Probe(tmp_path, 4.0, None, 1.0, False, 1.0))
    found = throughput_curve.measure_curve(bench, None, own=32)
    assert [p.batch for p in found.points] == [32]
    assert found.ended == "64 samples were requested, but its steps took 32: the batch cannot be changed from outside"


def test_probes_are_of_the_text_that_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[Candidate] = []

    def run(_: Script, candidate: Candidate, *__: Any, **___: Any) -> Probe:
        ran.append(candidate)
        return Probe(tmp_path, None, None, 1.0, False, None, failed="exit code 1: no data")

    monkeypatch.setattr(probe_process, "run_probe", run)
    with pytest.raises(InputError, match="no data"):
        throughput_curve.measure_curve(
            Bench(Script("a.py"), tmp_path, time.monotonic() + 600), None, own=32, texts={"/a.py": "fit()"}
        )
    assert [one.texts for one in ran] == [{"/a.py": "fit()"}]


def searched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, flat_from: float, each_s: float = 1.0, budget_s: float = 600.0,
    own: int = 128, largest: int | None = None,
) -> tuple[Any, list[int]]:  # fmt: skip
    """A curve of steps that gain up to ``flat_from`` samples, of a script of batch ``own`` that is told."""
    timed: list[int] = []
    clock = [0.0]

    def first(known: BatchProbes) -> None:
        known.own = own
        clock[0] += each_s
        known.recorded.append(
            batch_probe.RecordedProbe(own, "GPU_0_bfc", AllocationRecord("GPU_0_bfc", (), 0, 1), {}, each_s)
        )

    def time_one(_: BatchProbes, batch: int) -> tuple[Point, float]:
        timed.append(batch)
        clock[0] += each_s
        if largest is not None and batch > largest:
            raise InputError(f"no step took {batch} samples, the largest took {largest}: its data has no more")
        ms = max(batch, flat_from)
        return Point(batch, ms, 1e3 * batch / ms, 1e3 * batch / ms, 1e3 * batch / ms), each_s

    measured = SimpleNamespace(outcome=lambda _: SimpleNamespace(peak_bytes=1 << 30))
    monkeypatch.setattr(BatchProbes, "first", first)
    monkeypatch.setattr(throughput_curve, "_time_batch", time_one)
    monkeypatch.setattr(throughput_curve, "measure_peaks", lambda *_: measured)
    monkeypatch.setattr(memory_need, "memory_notes", lambda *_: ())
    monkeypatch.setattr(Bench, "left_s", property(lambda _: budget_s - clock[0]))
    return throughput_curve.measure_curve(Bench(Script("a.py"), tmp_path, 0.0), None), timed


@pytest.mark.parametrize("knee_at", [4, 32, 128, 1024])
def test_the_scripts_own_batch_is_first_and_the_knee_between_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, knee_at: int
) -> None:
    found, timed = searched(monkeypatch, tmp_path, flat_from=knee_at)
    assert timed[0] == found.batch == 128
    assert found.knee == knee_at
    batches = [p.batch for p in found.points]
    assert batches[0] < knee_at < batches[-1]
    assert batches == sorted(timed)
    assert len(timed) <= 8
    assert {p.peak_bytes for p in found.points} == {1 << 30}
    assert throughput_curve.STEPS_WERE_TIMED in found.notes


def test_a_knee_at_a_single_sample_has_nothing_below(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert searched(monkeypatch, tmp_path, flat_from=0.1, own=4)[0].knee == 1


def test_two_batches_are_no_knee(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found, timed = searched(monkeypatch, tmp_path, flat_from=4, each_s=16.0, budget_s=60.0)
    assert timed == [128, 256]
    assert (found.knee, found.knee_low, found.knee_high) == (None, None, None)
    assert found.ended.startswith("12 s were left, and another batch takes about 16; give a longer")
    said = " ".join(report.batch_text(found).split())
    assert "the knee was not found: measured only batches 128 and 256, of which no doubling gained 10%" in said
    assert "memory was not measured because the time ended" in said
    assert {p.peak_bytes for p in found.points} == {None}


def test_what_is_flat_down_to_where_the_time_ends_has_no_knee(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found, timed = searched(monkeypatch, tmp_path, flat_from=4, each_s=16.0, budget_s=84.0)
    assert timed == [128, 256, 64, 32]
    assert found.knee is None
    assert "batches 32, 64, 128 and 256" in report.batch_headline(found)


def test_data_that_ends_above_leaves_what_is_below(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found, timed = searched(monkeypatch, tmp_path, flat_from=64, largest=128)
    assert timed[:3] == [128, 256, 64]
    assert found.knee == 64
    assert "its data has no more" in found.ended


def test_steps_are_timed_with_the_users_own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    treated = []
    bench = told(monkeypatch, tmp_path, "tensorflow")
    run = BatchProbes.run

    def ran(known: BatchProbes, batch: int | None, what: str, treatment: Any, *rest: Any) -> Probe:
        treated.append(treatment)
        return run(known, batch, what, treatment, *rest)

    monkeypatch.setattr(BatchProbes, "run", ran)
    throughput_curve.measure_curve(bench, None, own=32, most=64)
    assert [dict(one.environment) for one in treated] == [{}, {}]
