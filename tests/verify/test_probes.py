"""How a probe ends: by itself, by its rule, at its limit, and with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from slowtrain.trace.loading import recording_trace
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.probe_process import CALLS, MAX_OUTPUT_BYTES, PROBE_ID_VARIABLE, TRAINING, Probe, Rule

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package
from ..warm import warm_probes  # noqa: TID252  tests are no package
from . import probing

WORKERS = """
    import multiprocessing, os, subprocess, sys, time
    def work():
        while True:
            time.sleep(1)
    if __name__ == "__main__":
        for method in ("fork", "spawn"):
            multiprocessing.get_context(method).Process(target=work, daemon=True).start()
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        if not os.fork():
            os.setsid(); time.sleep(600)
        time.sleep(float(sys.argv[1]))
        os._exit(0)
"""


def left_over(run: str) -> list[psutil.Process]:
    """Processes whose command or environment names the folder ``run``."""
    found = []
    for one in psutil.process_iter():
        try:
            if one.status() != psutil.STATUS_ZOMBIE and one.environ().get("SLOWTRAIN_TEST") == run:
                found.append(one)
        except psutil.Error:
            continue
    return found


def gone(run: str) -> bool:
    """After a moment, which the system may need."""
    until = time.monotonic() + 60
    while left_over(run) and time.monotonic() < until:
        time.sleep(0.05)
    return not left_over(run)


@pytest.mark.parametrize(("seconds", "limit_s"), [("1.5", 60.0), ("600", 2.0)], ids=["by itself", "at its limit"])
def test_no_process_is_left(seconds: str, limit_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOWTRAIN_TEST", str(tmp_path))
    script = probing.write(tmp_path, WORKERS)
    found = probing.probed(script, seconds, to=tmp_path / "runs", limit_s=limit_s)
    assert gone(str(tmp_path))
    assert found.failed is None
    assert found.stopped == (seconds == "600")


def test_no_process_is_left_of_a_slowtrain_that_is_ended(tmp_path: Path) -> None:
    script = probing.write(tmp_path, WORKERS)
    driver = f"""
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from pathlib import Path
        from slowtrain.verify.measurement.probe_process import Candidate, Rule, Script, run_probe
        run_probe(Script({str(script)!r}, ("600",)), Candidate("a"), Rule(), Path({str(tmp_path)!r}, "run"),
                  limit_s=600.0)
    """
    environment = {**os.environ, "SLOWTRAIN_TEST": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(driver)], env=environment) as process:
        until = time.monotonic() + 90
        while len(left_over(str(tmp_path))) < 6 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        assert len(left_over(str(tmp_path))) >= 6  # ourselves, the script, and the four that it starts
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=90) == -signal.SIGTERM
    assert gone(str(tmp_path))


def test_a_script_that_will_not_end(tmp_path: Path) -> None:
    text = """
        import signal, threading, time
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        threading.Thread(target=time.sleep, args=(600,)).start()
        while True:
            time.sleep(1)
    """
    found = probing.probed(probing.write(tmp_path, text), to=tmp_path / "runs", limit_s=1.5)
    assert (found.stopped, found.failed, found.step_ms) == (True, None, None)


def test_what_a_script_prints_does_not_reach_us(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        import os, sys, time
        line = "x" * 999_999 + "\\n"
        for _ in range(160):
            sys.stdout.write(line)
            time.sleep(0.01)
        os.system("echo of a child; echo and its errors >&2")
        sys.exit("the last words")
    """
    ticks: list[float] = []
    most = [0]

    def tick(seconds: float) -> None:
        ticks.append(seconds)
        for one in psutil.Process().children():
            files = [f for f in Path(f"/proc/{one.pid}/fd").glob("1") if f.exists()]
            most[0] = max([most[0], *(f.stat().st_blocks * 512 for f in files)])

    found = probing.probed(probing.write(tmp_path, text), to=tmp_path / "runs", tick=tick)
    assert found.failed == "exit code 1: the last words"
    assert capfd.readouterr() == ("", "")
    assert len(ticks) > 5
    assert 1_000_000 < most[0] < 1.5 * MAX_OUTPUT_BYTES


def test_the_mark_is_the_probes_own(tmp_path: Path) -> None:
    assert PROBE_ID_VARIABLE not in os.environ
    text = (
        f"import os\nassert len(os.environ[{PROBE_ID_VARIABLE!r}]) == 32\nassert 'SLOWTRAIN_RECORDING' not in "
        "os.environ"
    )
    assert probing.probed(probing.write(tmp_path, text), to=tmp_path / "runs").failed is None


@pytest.mark.parametrize(
    ("source", "training", "work"),
    [("fit", True, TRAINING), ("predict()", False, CALLS), ("fit()", True, TRAINING), ("next", False, "")],
)
def test_what_steps_do(source: str, training: bool, work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = parse_drawing(f"step 1111111111\n@steps source={source} training={str(training).lower()}\n")
    monkeypatch.setattr(recording_trace, "load_recording", lambda _: trace)
    assert probe_process.read_probe(tmp_path, 1.0, False, None).work == work


def test_without_a_plan_nothing_is_run(tmp_path: Path) -> None:
    script = probing.write(tmp_path, "print('ran')")
    code = "from slowtrain.capture.sandbox import probe; probe.main()"
    done = subprocess.run([sys.executable, "-c", code, str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing was run" in done.stderr


# -- the rule

STEPS = """
    import sys
    import numpy as np
    import tensorflow as tf
    keras = tf.keras
    how, many = sys.argv[1], int(sys.argv[2])
    x, y = np.random.rand(64, 4).astype("float32"), np.random.rand(64, 1).astype("float32")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.05)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    if how == "fit":
        model.compile(optimizer, "mse")
        model.fit(x, y, batch_size=64, epochs=many, verbose=0, shuffle=False)
    elif how == "batches":
        model.compile(optimizer, "mse")
        for _ in range(many):
            model.train_on_batch(x, y)
    else:
        step = tf.function(step) if how == "function" else step
        for _ in range(many):
            step(tf.constant(x), tf.constant(y))
    open("result.txt", "w").write("to the end")
    print("to the end")
"""
SHORT = Rule(seconds=0.3, steps=20)


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Probe]:
    """A probe of each kind of loop: stopped, one with another seed; and the first once more, which ends by itself."""
    folder = tmp_path_factory.mktemp("steps")
    script = probing.write(folder / "project", STEPS)
    found = {}
    with warm_probes():
        for how in ("batches", "function", "eager"):
            seed = 1 if how == "batches" else 0
            found[how] = probing.probed(script, how, "1000000", to=folder / how, rule=SHORT, seed=seed)
        found["short"] = probing.probed(script, "fit", "25", to=folder / "short", rule=Rule(seconds=60.0, steps=20))
    found["fit"] = probing.probed(script, "fit", "1000000", to=folder / "fit", rule=SHORT)
    return found


@pytest.mark.parametrize("how", ["fit", "batches", "function", "eager"])
@pytest.mark.tensorflow
def test_it_stops_after_enough_steps(how: str, steps: dict[str, Probe]) -> None:
    found = steps[how]
    assert (found.failed, found.stopped) == (None, True)
    assert (found.sample_ms is None) == (how == "eager")
    assert found.step_ms is not None
    trace = recording_trace.load_recording(found.folder)
    assert len(trace.steps) >= SHORT.steps
    assert (trace.steps.end_ms[-1] - trace.steps.start_ms[0]) / 1e3 >= SHORT.seconds - 0.1
    assert not found.redirected  # its end never came


@pytest.mark.tensorflow
def test_it_ends_with_the_script(steps: dict[str, Probe]) -> None:
    found = steps["short"]
    assert (found.failed, found.stopped) == (None, False)
    assert [Path(one).name for one in found.redirected] == ["result.txt"]
    assert len(found.losses) == 25
    assert found.weights == ()  # Keras tells its loss


@pytest.mark.tensorflow
def test_the_losses(steps: dict[str, Probe]) -> None:
    values = {name: [next(iter(step.values())) for step in one.losses] for name, one in steps.items()}
    n = min(len(v) for v in values.values())
    assert n >= 20
    assert values["batches"][:n] != pytest.approx(values["fit"][:n], rel=1e-2)  # another seed
    assert values["fit"][:n] == values["short"][:n]  # the same seed, another run
    assert values["function"][:n] == pytest.approx(values["eager"][:n], rel=1e-6)
    for series in values.values():
        assert series[n - 1] < series[0]  # it trains
