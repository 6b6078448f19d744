"""Lines through processes, where they cross, and after how many steps: against what the times were made of."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

from slowtrain import diagnose
from slowtrain.causes import all_causes
from slowtrain.cli import main
from slowtrain.errors import EnvironmentMissing, InputError
from slowtrain.machine.host.gpu_devices import Gpus
from slowtrain.model.measurements import Crossover, Fit, Range, Side, Timing
from slowtrain.report import crossover, pages
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace, side_files
from slowtrain.verify.batch_sizes import device_crossover
from slowtrain.verify.batch_sizes.batch_probe import BatchProbes
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Probe, Script, Treatment

from ..drawn_trace import parse_drawing as drawn_trace  # noqa: TID252  tests are no package
from ..warm import warm_probes  # noqa: TID252  tests are no package

BATCHES = (8, 64, 512)


def timings(
    name: str, fixed: float, each: float, start_s: float, *, noise: float = 0.0, count: int = 3, seed: int = 1
) -> tuple[Timing, ...]:
    """``count`` processes at each batch of a machine that takes ``fixed + each * batch`` ms, times 1 ± ``noise``."""
    chance = random.Random(f"{name} {seed}")

    def drawn(value: float) -> float:
        return value * math.exp(chance.gauss(0, noise)) if noise else value

    return tuple(
        Timing(name, b, drawn(start_s), drawn(300.0), drawn(fixed + each * b)) for b in BATCHES for _ in range(count)
    )


def cross(one: tuple[Timing, ...], other: tuple[Timing, ...]) -> Range:
    found = [device_crossover.fit_timings(side) for side in (one, other)]
    assert found[0] is not None
    assert found[1] is not None
    lines = [(f.fixed_ms.value, f.per_sample_ms.value) for f, _ in found]  # type: ignore[misc]
    return device_crossover.crossing_batch(found[0][1], found[1][1], lines[0], lines[1], max(BATCHES))


def test_lines_without_noise_cross_where_they_do() -> None:
    gpu, cpu = timings("gpu", 5.0, 0.01, 9.0), timings("cpu", 1.0, 0.05, 3.0)
    found = cross(gpu, cpu)  # 5 + 0.01 b = 1 + 0.05 b at b = 100
    assert found.value == pytest.approx(100)
    assert found.low == pytest.approx(100, abs=1)
    assert found.high == pytest.approx(100, abs=1)


def test_intervals_hold_what_they_promise() -> None:
    """Of many noisy measurements about 95 % have the true crossing inside; 90 at least, of 100."""
    inside = 0
    for seed in range(100):
        gpu = timings("gpu", 5.0, 0.01, 9.0, noise=0.1, seed=seed)
        cpu = timings("cpu", 1.0, 0.05, 3.0, noise=0.1, seed=1000 + seed)
        found = cross(gpu, cpu)
        inside += found.low <= 100 <= found.high
    assert inside >= 90


def test_a_device_that_always_wins_and_one_that_never_does() -> None:
    fast, slow = timings("gpu", 1.0, 0.01, 9.0), timings("cpu", 2.0, 0.05, 3.0)
    always = cross(fast, slow)
    assert (always.value, always.high) == (0.0, 0.0)
    never = cross(slow, fast)
    assert math.isinf(never.low)


@pytest.mark.parametrize(("spread", "certain"), [(0.0005, True), (0.005, False)])
def test_of_two_lines_alike_in_slope_none_is_said_to_win_at_every_batch(spread: float, certain: bool) -> None:
    """One starts lower; which of them is flatter nobody knows, and far beyond what was measured that decides."""
    chance = np.random.default_rng(1)
    one = np.stack([np.full(4000, 1.0), chance.normal(0.05, spread, 4000)], axis=1)
    other = np.stack([np.full(4000, 5.0), chance.normal(0.051, spread, 4000)], axis=1)
    found = device_crossover.crossing_batch(one, other, (1.0, 0.05), (5.0, 0.051), max(BATCHES))
    assert found.value == 0
    assert math.isinf(found.high) is not certain


def test_steps_that_make_up_for_a_slow_start() -> None:
    gpu, cpu = timings("gpu", 5.0, 0.01, 9.0), timings("cpu", 1.0, 0.05, 3.0)
    at = device_crossover.compare_at_batch(512, (gpu, cpu))
    assert at is not None
    assert at.faster == "gpu"
    assert at.speedup.value == pytest.approx((1 + 0.05 * 512) / (5 + 0.01 * 512))
    # The starts differ by 6 s, of which what a first step takes longer than the others is part.
    gap = (1 + 0.05 * 512) - (5 + 0.01 * 512)
    assert at.steps is not None
    assert at.steps.value == pytest.approx((6000 + gap) / gap)
    small = device_crossover.compare_at_batch(8, (gpu, cpu))
    assert small is not None
    assert (small.faster, small.steps and small.steps.value) == ("cpu", 0.0)


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (Range(88.0, 14.0, math.inf), "gpu may win from batch 88 on (14 at the least), which is not certain"),
        (Range(math.inf, 14.0, math.inf), "no batch is known from which the order changes"),
        (Range(0.0, 0.0, 0.5), "gpu wins at every batch up to 512, the largest measured"),
        (Range(0.0, 0.0, math.inf), "gpu may win at every batch, which is not certain"),
        (Range(88.2, 54.1, 159.7), "gpu wins from batch 89 (54 to 160) on"),
        (
            Range(900, 700, 1300),
            "gpu wins from batch 900 (700 to 1,300) on (by its line: 512 was the largest measured)",
        ),
    ],
)
def test_what_is_not_certain_is_not_said_to_be(batch: Range, said: str) -> None:
    assert crossover.winner_by_batch(dataclasses.replace(drawn(), winner="gpu", batch=batch)) == said


def test_one_process_tells_no_interval() -> None:
    gpu, cpu = timings("gpu", 5.0, 0.01, 9.0, count=1), timings("cpu", 1.0, 0.05, 3.0, count=1)
    at = device_crossover.compare_at_batch(512, (gpu, cpu))
    assert at is not None
    assert math.isinf(at.speedup.high)
    assert at.steps is None


def test_one_batch_gives_no_line() -> None:
    assert device_crossover.fit_timings([t for t in timings("gpu", 5.0, 0.01, 9.0) if t.batch == 8]) is None


@pytest.mark.parametrize(("high", "said"), [(1200, "is faster from"), (None, "may be faster from")])
def test_a_batch_that_is_not_certain_is_no_fact_in_a_report(high: float | None, said: str) -> None:
    cause = next(c for c in all_causes() if c.id == "compute/faster-on-cpu")
    trace = drawn_trace(cause.fires[0].replace('"high":1200', f'"high":{json.dumps(high)}'))
    (found,) = diagnose.diagnose_trace(trace, [cause]).diagnoses
    assert f"the GPU {said} a batch of 900 on" in found.evidence.says
    assert any(f"the GPU {said} a batch of 900 on" in p.says for p in found.prescriptions)


def test_a_batch_that_cannot_be_had_is_left_out_unless_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def timing(_: BatchProbes, name: str, __: Treatment, batch: int, ___: int) -> Timing:
        if batch > 100:
            raise InputError("its data has no more")
        return Timing(name, batch, 1.0, 1.0, 1.0)

    monkeypatch.setattr(device_crossover, "_time_process", timing)
    sizing = BatchProbes(Bench(Script("train.py"), tmp_path, math.inf))
    sizing.own = 32
    pair = (("cpu:threads=1", Treatment()), ("cpu:threads=2", Treatment()))
    found, notes = device_crossover._run_rounds(sizing, pair, (8, 32, 128), 2, asked=False)
    assert sorted({t.batch for t in found}) == [8, 32]
    assert len(found) == 8
    assert notes == ["a batch of 128 was left out: its data has no more"]
    with pytest.raises(InputError, match="no more"):
        device_crossover._run_rounds(sizing, pair, (8, 32, 128), 2, asked=True)


@pytest.mark.parametrize(
    ("seen", "says"), [(100, "its data has no more samples; give smaller"), (32, "cannot be changed")]
)
def test_steps_of_another_size_say_why_and_what_to_do(
    seen: int, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(device_crossover, "_probe_trace", lambda *_: Trace())
    monkeypatch.setattr(device_crossover, "step_batch", lambda _: seen)
    sizing = BatchProbes(Bench(Script("train.py"), tmp_path, math.inf))
    sizing.own = 32
    with pytest.raises(InputError, match=says):
        device_crossover._time_process(sizing, "cpu", Treatment(), 128, 1)


@pytest.mark.parametrize(
    "text", ["gpu", "cpu,cpu", "gpu,tpu", "cpu:threads=0,cpu", "cpu:threads=x,cpu", "cpu,gpu,cpu:threads=1", ""]
)
def test_other_devices_get_one_line(text: str) -> None:
    with pytest.raises((InputError, EnvironmentMissing)) as raised:
        device_crossover.parse_settings(text)
    assert "\n" not in str(raised.value)


def test_a_device_that_is_none_is_told_before_a_gpu_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_crossover, "Gpus", lambda: pytest.fail("looked for a GPU"))
    with pytest.raises(InputError, match=r"--devices gpu,tpu: tpu is not a device; write gpu, cpu or cpu:threads=N"):
        device_crossover.parse_settings("gpu,tpu")


@pytest.mark.parametrize(
    ("stopped", "says"), [(False, "train.py takes no training step"), (True, "took no steady steps .* --budget")]
)
def test_a_probe_without_a_step_never_trained_unless_it_was_cut_short(
    stopped: bool, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Drawn(BatchProbes):
        def run(self, *_: object, **__: object) -> Probe:
            return Probe(tmp_path, None, None, 1.0, stopped, None)

    monkeypatch.setattr(recording_trace, "load_recording", lambda _: Trace())
    with pytest.raises(InputError, match=says):
        device_crossover._probe_trace(
            Drawn(Bench(Script("train.py"), tmp_path, 0.0)), None, "cpu", Treatment(), device_crossover.SHORT_RULE
        )


def test_without_a_gpu_it_says_so_and_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if Gpus().handles:
        pytest.skip("there is a GPU")
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('was run')\n")
    assert main(["crossover", "--out", str(tmp_path / "runs"), str(script)]) == 3
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "no GPU can be measured here" in said.err
    assert not (tmp_path / "runs").exists()


def drawn(noise: float = 0.02) -> Crossover:
    gpu = timings("gpu", 5.0, 0.01, 9.0, noise=noise)
    cpu = timings("cpu", 1.0, 0.05, 3.0, noise=noise)
    sides = []
    for mine in (gpu, cpu):
        found = device_crossover.fit_timings(mine)
        assert found is not None
        parts = {"computing": 3.0, "launch": 2.0, "copies": 0.4}
        sides.append(Side(mine[0].setting, mine, found[0], device_crossover.start_seconds(mine), 300.0, parts))
    at = tuple(o for b in BATCHES if (o := device_crossover.compare_at_batch(b, (gpu, cpu))) is not None)
    return Crossover("<b>.py", ("<b>.py",), "00", 8, tuple(sides), "gpu", cross(gpu, cpu), at, "Drawn", (), 60.0)


def test_the_text_says_both_and_fits_a_screen() -> None:
    rows = crossover.crossover_text(drawn()).splitlines()
    assert len(rows) <= 40
    assert all(len(row) <= 80 for row in rows)
    head = " ".join(crossover.crossover_headline(drawn()).split())
    assert head.startswith("at the script's batch of 8 cpu takes its steps")
    assert "gpu wins from batch 1" in head or "gpu wins from batch 9" in head


def test_what_a_sample_costs_is_told_however_little() -> None:
    (gpu, cpu), fit = drawn().sides, Fit(Range(0.7, 0.46, 0.93), Range(0.0026, 0.0019, 0.0033), 0.0, 6)
    assert crossover.fitted_line(dataclasses.replace(gpu, fit=fit)) == (
        "a = 0.70 (0.46 to 0.93) ms, b = 2.60 (1.90 to 3.30) µs, 6 processes"
    )
    fit = dataclasses.replace(fit, per_sample_ms=Range(0.21, 0.11, 0.3))
    assert "b = 0.21 (0.11 to 0.30) ms" in crossover.fitted_line(dataclasses.replace(cpu, fit=fit))


def test_the_document_has_no_infinite_number_and_the_page_no_tag_of_others() -> None:
    found = drawn()
    json.loads(crossover.crossover_json(found), parse_constant=lambda _: pytest.fail("not a number"))
    page = pages.crossover_page(found)
    assert "<b>.py" not in page
    assert page.count('class="line side') == 2  # on one scale, each with its interval
    assert page.count('class="envelope side') == 2
    assert "the order changes" in page
    assert page.count("<circle") >= 6


def test_a_picture_without_lines_has_the_measured_batches() -> None:
    found = drawn()
    sides = tuple(dataclasses.replace(side, fit=None) for side in found.sides)
    page = pages.crossover_page(dataclasses.replace(found, sides=sides, winner=None, batch=None))
    assert 'class="line side' not in page
    assert page.count('class="side0"') >= 4


def test_what_is_kept_with_a_recording_becomes_a_fact(tmp_path: Path) -> None:
    (tmp_path / "crossover.json").write_text(crossover.crossover_json(drawn()))
    assert side_files.read_sidecar_facts(tmp_path, {})["crossover"]["own_batch"] == 8
    for bad in ("", "[1]", '{"schema": "other/1"}', "[" * 100_000):
        (tmp_path / "crossover.json").write_text(bad)
        assert side_files.read_sidecar_facts(tmp_path, {}) == {}


@pytest.mark.tensorflow
@warm_probes()
def test_settings_of_the_cpu_are_really_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy as np, tensorflow as tf\n"
        "print('threads', tf.config.threading.get_intra_op_parallelism_threads())\n"
        "m = tf.keras.Sequential([tf.keras.layers.Input((8,)), tf.keras.layers.Dense(4)])\n"
        "m.compile('sgd', 'mse')\n"
        "m.fit(np.zeros((4000, 8), 'f'), np.zeros((4000, 4), 'f'), batch_size=16, epochs=2, verbose=0)\n"
    )
    arguments = ["--devices", "cpu:threads=1,cpu:threads=2", "--batches", "16,64", "--rounds", "1", "--json", "-"]
    assert main(["crossover", *arguments, "--out", str(tmp_path / "runs"), str(script)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["own_batch"] == 16
    assert [len(side["processes"]) for side in found["sides"]] == [2, 2]
    assert all(p["step_ms"] > 0 and p["start_s"] > 0 for side in found["sides"] for p in side["processes"])
    assert {side["measured_on"]["kind"] for side in found["sides"]} == {"CPU"}
    assert found["source_sha256"] == hashlib.sha256(script.read_bytes()).hexdigest()


@pytest.mark.tensorflow
def test_a_script_that_does_not_train_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    arguments = ["--devices", "cpu:threads=1,cpu:threads=2", "--out", str(tmp_path / "runs")]
    assert main(["crossover", *arguments, str(script)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].endswith("train.py takes no training step, so there is nothing to measure")
