"""The size of a larger batch: by what was measured, and by what was not."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from slowtrain.causes.compute.small_batch import SmallBatch
from slowtrain.diagnose import Findings, diagnose_trace
from slowtrain.errors import InputError
from slowtrain.model import Diagnosis, Edit, Effect, Evidence, Prescription, Saving, Signal
from slowtrain.model.measurements import BatchCurve, Device, Point, Proof
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import batch_curve
from slowtrain.verify.batch_sizes import throughput_curve
from slowtrain.verify.fix import fix_loop
from slowtrain.verify.fix.fix_loop import MeasuredSizes
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.candidate_proof import DiagnosedProbe
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Script

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

CAUSE = SmallBatch.id
CARD = Device("a T4", 13627 << 20, "its own log")
SMALL = """
step     1111
dispatch dddd
@steps size=2 line=5
@event loop name=fit data={"data": {"shape": [SAMPLES, 784]}}
"""


def trace(samples: int = 60_000) -> Trace:
    return parse_drawing(SMALL.replace("SAMPLES", str(samples)))


def timed(*, most: int, fixed_ms: float = 4.0, each_ms: float = 0.1, **more: Any) -> BatchCurve:
    """The points that probes of such steps would give, up to ``most`` samples."""
    points = []
    batch = 2
    while batch <= most:
        ms = fixed_ms + each_ms * batch
        points.append(Point(batch, ms, 1e3 * batch / ms, 0.98e3 * batch / ms, 1.02e3 * batch / ms))
        batch *= 2
    knee, low, high = (throughput_curve.find_knee(points, optimism=o) for o in (0, -1, 1))
    found = BatchCurve("a.py", 2, tuple(points), knee, low, high, throughput_curve.MIN_DOUBLING_GAIN, fixed_ms, each_ms)
    return replace(found, **more)


def diagnosed(of: Trace) -> Diagnosis:
    (found,) = diagnose_trace(of, [SmallBatch()]).diagnoses
    return found


def measured(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    found: BatchCurve | InputError,
    *,
    budget_s: float = 600.0,
    device: Device | None = None,
    of: Trace | None = None,
) -> tuple[MeasuredSizes, list[dict[str, Any]]]:
    """What is made of ``found``, and what the probes were asked for."""
    asked: list[dict[str, Any]] = []

    def told(bench: Bench, card: Device | None, **options: Any) -> BatchCurve:
        asked.append({"left_s": bench.left_s, "device": card, **options})
        if isinstance(found, InputError):
            raise found
        return found

    monkeypatch.setattr(throughput_curve, "measure_curve", told)
    of = of or trace()
    seen = DiagnosedProbe(Probe(folder, 4.0, 2.0, 60.0, True, 8.0), of, Findings(), None)  # type: ignore[arg-type]
    bench = Bench(Script("a.py"), folder, time.monotonic() + budget_s)
    texts = {"/a.py": "edited"}
    return fix_loop.measure_sizes(bench, seen, diagnosed(of), texts, device), asked


def goal(known: Mapping[str, Any], of: Trace) -> float | None:
    found = diagnose_trace(batch_curve.with_batch_fact(of, known), [SmallBatch()]).diagnoses
    return found[0].evidence.numbers["goal"] if found else None


def test_the_knee_is_the_size_and_not_what_people_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert diagnosed(trace()).evidence.numbers["goal"] == 64
    sizes, (asked,) = measured(monkeypatch, tmp_path, timed(most=2048), device=CARD)
    assert sizes.known is not None
    assert goal(sizes.known, trace()) == 256  # 4.5 times 4 ms / 0.1 ms, by doublings
    assert sizes.note == f"{CAUSE}: batches of 2 to 2,048 were timed, the knee is at 256 (128 to 512)"
    assert (asked["own"], asked["most"], asked["device"]) == (2, 7500, CARD)
    assert asked["texts"] == {"/a.py": "edited"}
    assert asked["left_s"] == pytest.approx(fix_loop.MAX_SEARCH_SHARE * 600, abs=2)  # the rest is for what comes after
    smaller, _ = measured(monkeypatch, tmp_path, timed(most=2048, each_ms=1.0))
    assert smaller.known is not None
    assert goal(smaller.known, trace()) == 32


@pytest.mark.parametrize(
    ("samples", "limit", "expected"),
    [(60_000, None, 256), (60_000, 200, 128), (1000, None, 64), (1000, 50, 32), (60_000, 3, None), (20, None, None)],
)
def test_it_fits_the_memory_and_the_data(samples: int, limit: int | None, expected: float | None) -> None:
    """Of the sizes that were measured the largest; the data is for eight steps at the least."""
    known = asdict(timed(most=2048, limit_batch=limit, device=CARD))
    assert goal(known, trace(samples)) == expected


def test_data_of_unknown_length_is_as_long_as_an_epoch_was() -> None:
    of = structs.replace(parse_drawing(SMALL + "@repeat 300"), events=())
    block = np.arange(len(of.steps)) // 200  # steps, of two samples
    known = asdict(timed(most=2048))
    assert goal(known, structs.replace(of, steps=structs.replace(of.steps, block=block))) == 32
    assert goal(known, structs.replace(of, steps=structs.replace(of.steps, block=0 * block))) == 256  # it may go on


def test_the_forecast_of_a_device_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = timed(most=16, limit_batch=20, device=CARD, ended="batch 32 would not fit")
    sizes, _ = measured(monkeypatch, tmp_path, found, device=CARD)
    assert sizes.known is not None
    assert goal(sizes.known, trace()) == 16
    assert sizes.note.endswith(
        "of 2 to 16 were timed, and the last one still gained (batch 32 would not fit); the memory forecast for a T4 "
        "allows 20"
    )


def test_where_the_scripts_own_is_the_largest_that_fits_none_is_larger(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = timed(most=2, limit_batch=3, device=CARD, ended="batch 4 would not fit")
    sizes, _ = measured(monkeypatch, tmp_path, found, device=CARD)
    assert sizes.known is not None
    assert goal(sizes.known, trace()) is None
    assert sizes.note.endswith("a batch of 2 was timed (batch 4 would not fit); the memory forecast for a T4 allows 3")
    of = structs.replace(trace(), signals=frozenset())
    assert (
        batch_curve.with_batch_fact(of, sizes.known).signals == frozenset()
    )  # whether its own is too large nobody has measured
    alone = {**sizes.known, "limit_batch": 100}
    assert goal(alone, trace()) == 64  # as if nothing had been measured


def test_steps_that_still_gain_decide_where_they_are_as_large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    over: dict[str, Any] = {"each_ms": 0.001, "ended": "the time ended; give a longer --budget"}
    sizes, _ = measured(monkeypatch, tmp_path, timed(most=128, **over))
    assert sizes.known is not None
    assert goal(sizes.known, trace()) == 128
    sizes, _ = measured(monkeypatch, tmp_path, timed(most=32, **over))
    assert sizes.known is None
    assert "a common size is tried (64): no knee up to batch 32: the time ended" in sizes.note


def test_no_larger_one_is_timed_than_the_data_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    of = trace(900)
    sizes, (asked,) = measured(monkeypatch, tmp_path, timed(most=64, each_ms=0.001), of=of)
    assert asked["most"] == 112
    assert sizes.known is not None
    assert goal(sizes.known, of) == 64
    assert sizes.note.endswith(
        "2 to 64 were timed, and the last one still gained (its data has fewer than 8 steps of twice the size)"
    )


def test_what_cannot_be_measured_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sizes, _ = measured(monkeypatch, tmp_path, InputError("the batch of a.py cannot be changed from outside"))
    assert sizes == MeasuredSizes(
        None,
        f"{CAUSE}: the knee was not measured, so a common size is tried (64): "
        "the batch of a.py cannot be changed from outside",
    )


@pytest.mark.parametrize(("budget_s", "device", "probed"), [(90, None, False), (110, None, True), (110, CARD, False)])
def test_no_probe_is_begun_that_would_not_come_as_far(
    budget_s: float, device: Device | None, probed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Six doublings of ten seconds up to 64, the last with twenty to spare; two more for memory."""
    sizes, asked = measured(monkeypatch, tmp_path, timed(most=2048), budget_s=budget_s, device=device)
    assert (len(asked) == 1, sizes.known is not None) == (probed, probed)
    assert probed or fix_loop.NO_TIME_REASON in sizes.note


def test_a_trace_that_was_told_has_the_signal() -> None:
    of = structs.replace(trace(), signals=frozenset({Signal.STEPS}))
    assert batch_curve.with_batch_fact(of, asdict(timed(most=64))).signals == {Signal.STEPS, Signal.BATCHES}
    assert batch_curve.with_batch_fact(of, {"points": []}).signals == {Signal.STEPS}


class World:
    """A script whose batch may be any; a larger one is faster up to ``knee``."""

    TEXT = "batch = 2\n"

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, folder: Path, sizes: MeasuredSizes, *, widest: int = 4096
    ) -> None:
        self.path = folder / "train.py"
        self.path.write_text(self.TEXT)
        self.folder, self.sizes, self.widest = folder, sizes, widest
        self.texts: dict[Path, str] = {}
        self.asked = 0
        monkeypatch.chdir(folder)
        monkeypatch.setattr(probe_process, "run_probe", self.run)
        monkeypatch.setattr(fix_loop, "measure_sizes", self.measured)
        monkeypatch.setattr(
            "slowtrain.verify.fix.fix_loop.recording_trace.load_recording",
            lambda at: structs.replace(Trace(), root=str(folder), facts={"at": at}),
        )
        monkeypatch.setattr("slowtrain.verify.fix.fix_loop.diagnose.diagnose_trace", self.examine)
        monkeypatch.setattr(fix_loop, "build_checkup", lambda _trace, findings, **_named: findings)
        (folder / "runs").mkdir()

    def run(self, _script: Script, candidate: Candidate, _rule: Any, folder: Path, **_options: Any) -> Probe:
        folder.mkdir()
        self.texts[folder] = candidate.texts.get(str(self.path), self.TEXT)
        ms = 1 / min(int(self.texts[folder].split()[-1]), 256)
        return Probe(folder, 1.0, ms, 0.1, False, 0.1, tuple({"loss": 1.0 / (i + 1)} for i in range(20)))

    def measured(self, *_: Any) -> MeasuredSizes:
        self.asked += 1
        return self.sizes

    def examine(self, of: Trace) -> Findings:
        """Small below 16 samples where nothing was measured, and below the knee where it was."""
        text = self.texts[of.facts["at"]]
        size = int(text.split()[-1])
        known = of.facts.get("batch")
        to = known["knee"] if known is not None else 64
        if size >= (to if known is not None else 16):
            return Findings()
        edit = Edit("train.py", (1, 8), (1, len(text) - 1), str(to))
        cures = (
            Prescription("edit", Effect.CHANGES_TRAINING, f"to {to}", edits=(edit,) if to <= self.widest else ()),
            Prescription("setting", Effect.EXACT, "several steps"),
        )
        evidence = Evidence("small", {"batch": float(size), "goal": float(to)})
        return Findings((Diagnosis(CAUSE, CAUSE, evidence, Saving("step", 2.0, 1.0, 1.5, 2.5), 0.5, cures),))

    def fix(self, *allowed: Effect) -> Proof:
        bench = Bench(Script("train.py"), self.folder / "runs", time.monotonic() + 100)
        return fix_loop.fix_script(bench, fix_loop.DEFAULT_EFFECTS | set(allowed), CARD)


def outcome(proof: Proof) -> tuple[list[tuple[str, bool]], list[str]]:
    return [(a.says, a.kept) for a in proof.attempts], [n for n in proof.notes if n.startswith("it was ")]


def test_fix_goes_to_the_size_that_was_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, MeasuredSizes({"knee": 8}, "it was measured"))
    proof = world.fix(Effect.CHANGES_TRAINING)
    assert outcome(proof) == ([("to 8", True)], ["it was measured"])
    assert "+batch = 8\n" in proof.diff
    assert proof.by_hand == ()  # of eight samples nobody measures anew, nor calls them few
    assert world.asked == 1


def test_nothing_is_measured_where_training_must_not_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, MeasuredSizes({"knee": 8}, "it was measured"))
    assert outcome(world.fix()) == ([], [])
    assert world.asked == 0


def test_where_nothing_was_decided_the_usual_size_is_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, MeasuredSizes(None, "it was not measured"))
    assert outcome(world.fix(Effect.CHANGES_TRAINING)) == ([("to 64", True)], ["it was not measured"])
    assert world.asked == 1


def test_where_a_larger_one_gains_nothing_none_is_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, MeasuredSizes({"knee": 2}, "it was measured"))
    proof = world.fix(Effect.CHANGES_TRAINING)
    assert outcome(proof) == ([], ["it was measured" + fix_loop.NO_GAIN_REASON])
    assert proof.before is not None
    assert proof.before.diagnoses == ()


def test_what_no_edit_can_write_leaves_the_usual_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, MeasuredSizes({"knee": 256}, "it was measured"), widest=128)
    proof = world.fix(Effect.CHANGES_TRAINING)
    assert outcome(proof)[0] == [("to 64", True)]
    assert [n for n in proof.notes if n.endswith(f"a common size is tried (64): {fix_loop.NO_EDIT_REASON}")]


def test_what_was_measured_can_be_written_down() -> None:
    assert json.loads(json.dumps(asdict(timed(most=64, device=CARD))))["points"][0]["batch"] == 2
