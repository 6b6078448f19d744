"""Cures without an edit: seen in what the recorder noted of the script, which stayed as it is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from slowtrain.capture.sandbox.treatments import PLACED_TREATMENTS, TREATMENTS
from slowtrain.causes import all_causes
from slowtrain.cli import main
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.verify.measurement import candidate_proof, probe_process
from slowtrain.verify.measurement.edited_files import EditedFiles
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Rule, Script, Treatment

from ..warm import warm_probes  # noqa: TID252  tests are no package
from . import probing

THREADS = """
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(num_threads=1)
    said = tf.config.threading
    assert (said.get_intra_op_parallelism_threads(), said.get_inter_op_parallelism_threads()) == ({0}, {0})
"""
SCRIPT = """
    import keras, numpy as np, tensorflow as tf
    x = np.ones((64, 4), "float32")
    data = tf.data.Dataset.from_tensor_slices((x, x)).map(lambda a, b: (a + 1, b)).batch(4)
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(4)])
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(data, verbose=0, epochs=2)
"""
TOLD = """
    import keras, numpy as np
    x = np.ones((640, 4), "float32")
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(4)])
    model.compile("sgd", "mse")
    model.fit(x, x, batch_size=4, verbose=0, epochs=2, steps_per_epoch=36)
    assert int(model.optimizer.iterations.numpy()) == 72, model.optimizer.iterations
    model.fit(x, x, batch_size=4, verbose=0)
    assert int(model.optimizer.iterations.numpy()) == 72 + 160, model.optimizer.iterations
"""
PASSES = """
    import tensorflow as tf
    worked = tf.Variable(0)
    def work(number):
        worked.assign_add(1)
        return number * 2
    def inside(number):
        return tf.data.Dataset.from_tensors(number).map(work)
    data = tf.data.Dataset.range(4)
    data = data.map(work)
    data = data.interleave(inside).shuffle(4).map(lambda n: n + tf.random.uniform((), 0, 9, tf.int64))
    passes = [sorted(int(n) for n in data) for _ in range(3)]
    assert int(worked) == {0}, worked
    assert len(passes[0]) == 4
"""


@warm_probes()
def probed(tmp_path: Path, text: str, *treatments: str) -> Trace:
    script = probing.write(tmp_path / "project", text)
    treated = Candidate("one", {}, Treatment(treatments))
    found = probe_process.run_probe(Script(str(script)), treated, Rule(), tmp_path / "run", limit_s=120)
    assert found.failed is None
    trace = recording_trace.load_recording(tmp_path / "run")
    assert trace.facts.get("faults", []) == []
    return trace


def compiled(trace: Trace) -> Any:
    return list(trace.events_of("compile"))[-1].data


@pytest.mark.tensorflow
def test_the_script_as_it_is(tmp_path: Path) -> None:
    trace = probed(tmp_path, THREADS.format(1) + SCRIPT + PASSES.format(24))
    ops = [n["op"] for e in trace.events_of("pipeline") for n in e.data["nodes"]]
    assert compiled(trace)["run_eagerly"] is True
    assert set(trace.fact("policies")) == {"float32"}
    assert not any("Parallel" in op or "Prefetch" in op for op in ops)


@pytest.mark.tensorflow
def test_treatments_together(tmp_path: Path) -> None:
    trace = probed(tmp_path, THREADS.format(0) + SCRIPT, *TREATMENTS)
    ops = [n["op"] for e in trace.events_of("pipeline") for n in e.data["nodes"]]
    assert {"ParallelMapDataset", "PrefetchDataset"} <= set(ops)
    about = compiled(trace)
    assert (about["run_eagerly"], about["steps_per_execution"], about["jit_compile"]) == (False, 50, True)
    assert set(trace.fact("policies")) == {"mixed_float16"}


@pytest.mark.tensorflow
def test_told_steps_stay_and_the_map_of_a_line_is_kept(tmp_path: Path) -> None:
    """Fifty steps at once would be fifty in each epoch of thirty-six; without the cache the maps work 24 times."""
    text = TOLD + PASSES.format(16)
    rows = [row.strip() for row in text.splitlines()]
    came_to = {
        "data = data.map(work)": True,  # made once, and no more in the second and third pass
        "return tf.data.Dataset.from_tensors(number).map(work)": None,  # it would be another cache for each element
        "data = tf.data.Dataset.range(4)": None,  # no map is called there
    }
    script = tmp_path / "project" / "script.py"
    names = {row: f"cache@{script}:{1 + rows.index(row)}" for row in came_to}
    trace = probed(tmp_path, text, "several-steps", *names.values())
    assert {row: trace.fact(f"treated {name}") for row, name in names.items()} == came_to
    assert len(trace.lane("step")) < 20


def test_prescriptions_name_treatments_that_there_are() -> None:
    named = set()
    for cause in all_causes():
        for drawing in cause.fires:
            named |= {p.treatment for p in _prescribed(cause, drawing)}
    names = {(name.partition("@")[0], "@" in name) for name in named - {None}}
    assert names <= {(n, False) for n in TREATMENTS} | {(n, True) for n in PLACED_TREATMENTS}
    assert len(names) >= 5


def _prescribed(cause: Any, drawing: str) -> Any:
    from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

    trace = parse_drawing(drawing)
    evidence = cause.find(trace)
    return cause.cures(trace, evidence) if evidence is not None else ()


def test_the_help_names_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    main(["verify", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    known = (*TREATMENTS, *(f"{name}@FILE:LINE" for name in PLACED_TREATMENTS))
    assert f"separated by commas: {', '.join(known)} (" in said.replace("- ", "-")


MAPS = """\
import tensorflow as tf
data = tf.data.Dataset.range(8)
data = data.map(abs)
data = data.map(abs).map(abs)
"""


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ("", "no line is given"),
        ("@", "no line is given"),
        ("@train.py", "no line is given"),
        ("@train.py:", "no line is given"),
        ("@train.py:-3", "no line is given"),
        ("@train.py:" + "9" * 5000, "no line is given"),
        ("@other.py:3", "other.py cannot be read"),
        ("@.:3", ". cannot be read"),
        ("@train.py:2", "the line has no calls of map"),
        ("@train.py:4", "the line has 2 calls of map"),
        ("@broken.py:1", "the line has no calls of map"),
    ],
)
def test_a_cache_needs_the_line_of_one_map(
    at: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(MAPS)
    (tmp_path / "broken.py").write_text("data.map(")
    assert main(["verify", "--treat", f"prefetch,cache{at}", "train.py"]) == 2
    said = capsys.readouterr().err
    assert f"--treat cache{at}: {why}; give cache@FILE:LINE" in said
    assert said.count("\n") == 1


def test_a_cache_at_one_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(MAPS)
    assert candidate_proof.parse_treatments("cache@train.py:3, prefetch") == ("cache@train.py:3", "prefetch")


@pytest.mark.parametrize(
    ("name", "came_to", "later", "missed"),
    [("cache@train.py:3", True, True, 0), ("cache@train.py:3", False, True, 1), ("prefetch", False, False, 0)],
)
def test_a_cache_is_timed_behind_the_first_pass_and_says_when_nothing_was_cached(
    name: str, came_to: bool, later: bool, missed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(MAPS)
    rules = []

    def run(_script: Script, candidate: Candidate, rule: Rule, folder: Path, **_options: Any) -> Probe:
        folder.mkdir()
        rules.append(rule)
        ms = 1.0 if candidate.treatment.cures else 2.0
        return Probe(folder, ms + 0.001 * len(rules), None, 1.0, True, 0.1, ({"loss": 1.0},))

    monkeypatch.setattr(probe_process, "run_probe", run)
    facts = {f"treated {name}": True} if came_to else {}
    monkeypatch.setattr(recording_trace, "load_recording", lambda _: Trace(facts=facts))
    bench = Bench(Script("train.py"), tmp_path, time.monotonic() + 60)
    proof = candidate_proof.prove_candidate(bench, EditedFiles(), name, "step", None, (name,))
    assert {rule.later for rule in rules} == {later}
    assert proof.attempts[0].kept
    assert sum("no map was called on that line" in note for note in proof.notes) == missed


@pytest.mark.parametrize("given", ["prefech", ",", "prefetch,nothing"])
def test_an_unknown_treatment_is_one_line(given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = probing.write(tmp_path, SCRIPT)
    assert main(["verify", "--treat", given, str(script)]) == 2
    said = capsys.readouterr().err
    assert "choose from prefetch" in said
    assert said.count("\n") == 1
