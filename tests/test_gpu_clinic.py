"""``clinic/gpu.py``: it goes on where it ended, and puts nothing into a page that no card measured."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CLINIC = Path(__file__).parents[1] / "clinic"
CARD = "NVIDIA H200, 580"


@pytest.fixture(scope="module")
def gpu() -> Any:
    if not CLINIC.is_dir():
        pytest.skip("the clinic is not here")
    sys.path.insert(0, str(CLINIC))
    try:
        return importlib.import_module("gpu")
    finally:
        sys.path.remove(str(CLINIC))


@pytest.fixture
def machine(gpu: Any, tmp_path: Path) -> Any:
    return gpu.Machine(tmp_path, small=True)


def job(gpu: Any, *items: str, seconds: float = 1.0, ends: BaseException | None = None) -> Any:
    """Yields its results; with ``ends`` it fails behind the first."""

    def run(left_s: float) -> Iterator[dict[str, Any]]:
        for item in items:
            yield {"item": item, "value": 1}
            if ends is not None:
                raise ends

    return gpu.Job(items, seconds, run)


def written(machine: Any) -> list[tuple[str, bool]]:
    return [(row["item"], "error" in row) for row in map(json.loads, machine.results.read_text().splitlines())]


def test_it_does_only_what_is_missing(gpu: Any, machine: Any) -> None:
    gpu.work(machine, [job(gpu, "a")], time.monotonic() + 60)
    gpu.work(machine, [job(gpu, "a"), job(gpu, "b")], time.monotonic() + 60)
    assert written(machine) == [("a", False), ("b", False)]


def test_all_of_it_is_planned_for_twelve_minutes(gpu: Any, machine: Any) -> None:
    planned = gpu.jobs(machine)
    assert sum(one.seconds for one in planned) <= 720
    items = [item for one in planned for item in one.items]
    assert len([item for item in items if item.startswith("pair:")]) >= 16
    assert len([item for item in items if item.startswith("healthy:")]) == 3
    assert {"doctor", "crossover:sensor_dense"} < set(items)


def test_what_fails_keeps_its_results_and_is_tried_once_more(gpu: Any, machine: Any) -> None:
    failing = [job(gpu, "a", "b", ends=ValueError("broken")), job(gpu, "c")]
    for _ in range(3):
        gpu.work(machine, failing, time.monotonic() + 60)
    assert written(machine) == [("a", False), ("b", True), ("c", False), ("a", False), ("b", True)]


def test_behind_an_item_that_ends_the_process_the_others_get_another(gpu: Any, machine: Any) -> None:
    def run(left_s: float) -> Iterator[dict[str, Any]]:
        for item in ("a", "b", "c"):
            if not gpu.gpu_results.read(machine.results) or item == "c":
                yield {"item": item}
                continue
            if item not in {row["item"] for row in gpu.gpu_results.read(machine.results)}:
                raise ValueError("ended")

    gpu.work(machine, [gpu.Job(("a", "b", "c"), 1.0, run)], time.monotonic() + 60)
    assert written(machine) == [("a", False), ("b", True), ("c", False)]


def test_what_the_budget_cuts_off_is_no_failure(gpu: Any, machine: Any) -> None:
    gpu.work(machine, [job(gpu, "a", "b", ends=gpu.OutOfTimeError())], time.monotonic() + 60)
    assert written(machine) == [("a", False)]


def test_what_does_not_fit_into_the_budget_is_left(
    gpu: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = gpu.Machine(tmp_path, small=False, look=False)
    gpu.work(machine, [job(gpu, "long", seconds=100), job(gpu, "short")], time.monotonic() + 50)
    assert written(machine) == [("short", False)]
    assert "left for the next call (1): long" in capsys.readouterr().out


def test_a_line_that_was_cut_off_is_left_out(gpu: Any, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text('{"item": "a", "card": "x"}\n{"item": "b", "ca')
    assert [row["item"] for row in gpu.gpu_results.read(file)] == ["a"]


@pytest.mark.parametrize("largest", [1, 90, 100, 101, 230, 3000])
def test_the_largest_batch_that_fits(gpu: Any, largest: int) -> None:
    low, high = gpu.find_largest(lambda batch: batch <= largest, 100, time.monotonic() + 60)
    assert low <= largest
    assert high is None or high > largest
    if 90 <= largest <= 230:
        assert low >= 0.9 * largest


def row(item: str, **other: Any) -> dict[str, Any]:
    return {"item": item, "card": CARD, "s": 1.0, **other}


def pair(**other: Any) -> dict[str, Any]:
    found = {
        "cause": "host/launch-bound", "first": "host/launch-bound", "first_right": True, "line_right": True,
        "step_verdict": "launch-bound", "verdict_right": True, "scope": "step", "labelled_scope": "step",
        "foretold": 2.0, "low": 1.5, "high": 3.0, "run_ms": 20_000.0,
        "division": {"device": [0.1, 0.1, True], "h2d": [1.0, 3.0, False]},
    }  # fmt: skip
    return row("pair:sensor_dense", **{**found, **other})


TIMED = row("gain:sensor_dense", slow_s=5.0, fixed_s=2.0, slow_sample_s=5e-3, fixed_sample_s=2e-3)


def test_the_gain_of_a_run_is_what_the_cure_saves_of_it(gpu: Any) -> None:
    assert gpu.gpu_results.gain(pair(labelled_scope="run"), TIMED) == pytest.approx(20 / 17)
    assert gpu.gpu_results.gain(pair(), TIMED) == pytest.approx(2.5)
    assert gpu.gpu_results.gain(pair(), {}) is None


def test_what_no_card_measured_is_in_no_table(gpu: Any) -> None:
    pages = gpu.gpu_results.pages([{**pair(), "card": None}])
    assert set(pages.values()) == {gpu.gpu_results.WAITS}


def test_a_pair_in_its_table(gpu: Any) -> None:
    table = gpu.gpu_results.pages([pair(), TIMED])["gpu-pairs"]
    assert (
        "1 of 1 right first; 1 with the line; 1 step verdicts right; median error of the gain 20% over 1, 1 inside"
        in table
    )
    assert (
        "| sensor_dense | host/launch-bound | host/launch-bound | yes | yes | launch-bound | h2d 1 for 3 | step"
        in table
    )
    assert "| 2.00 (1.50 to 3.00) | 2.5 |" in table


def test_a_pair_that_failed_counts_as_one_that_is_not_right(gpu: Any) -> None:
    failed = row("pair:mixer_loop", error="it ended")
    assert "1 of 2 right first" in gpu.gpu_results.pages([pair(), failed])["gpu-pairs"]


def test_every_page_marker_is_in_the_page(gpu: Any) -> None:
    text = (CLINIC.parent / "docs" / "gpu.md").read_text(encoding="utf-8")
    for marker in [*gpu.gpu_results.pages([]), "gpu-recordings"]:
        assert f"<!-- {marker} -->" in text


def test_each_label_has_its_scripts_and_its_lines(gpu: Any) -> None:
    scripts = gpu.labelled()
    assert sum(bool(s.causes) for s in scripts) >= 16
    for script in scripts:
        assert script.slow.exists()
        assert bool(script.fixed and script.fixed.exists()) == bool(script.causes) == bool(script.lines)


def test_each_line_of_a_label_is_in_its_script(gpu: Any) -> None:
    for script in gpu.labelled():
        rows = script.slow.read_text(encoding="utf-8").splitlines()
        assert all(rows[line - 1].strip() for line in script.lines), script.name


def wait_until_stopped(group: int) -> None:
    """A process of the group that is stopped has a T in its line of /proc."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
                if int(its_group) == group and state == "T":
                    return
        time.sleep(0.05)
    pytest.fail("it never stopped")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="/proc tells what a process holds open")
def test_a_recording_that_is_started_ahead_stops_before_the_card(
    gpu: Any, machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = importlib.import_module("gpu_scripts")
    device, reached = tmp_path / "device", tmp_path / "reached"
    device.write_text("")
    monkeypatch.setattr(scripts, "UNIFIED", str(device))
    script = tmp_path / "train.py"
    script.write_text(
        f"import time\nheld = open({str(device)!r})\ntime.sleep(1)\nopen({str(reached)!r}, 'w').close()\n"
    )
    recording = scripts.Recording(machine, scripts.Labelled("train", script, None, [], [], []))
    try:
        wait_until_stopped(recording.process.pid)
        assert not reached.exists()
        recording.finish(30)
        assert reached.exists()
        assert recording.answer.exists()
    finally:
        recording.stop()
