"""The first bad step is run again: the op, its line and what it was given are the right ones; training is untouched."""

from __future__ import annotations

import math
import signal
from pathlib import Path
from typing import Any

import pytest

from slowtrain import diagnose
from slowtrain.machine.host.host_facts import free_bytes
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace

from . import running

pytestmark = pytest.mark.tensorflow

LOOP = """
import numpy as np, tensorflow as tf
tf.keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 8)).astype("float32")
y = x[:, :1].copy()
{data}
dense = tf.keras.layers.Dense(4, name="hidden")
head = tf.keras.layers.Dense(1, name="head")
dense.build((None, 8)); head.build((None, 4))
opt = tf.keras.optimizers.SGD({rate})

@tf.function(jit_compile={jit})
def step(a, b):
    with tf.GradientTape() as tape:
        p = head(dense(a))
        {loss}
    w = dense.trainable_variables + head.trainable_variables
    opt.apply_gradients(zip(tape.gradient(loss, w), w))
    return loss

for i in range(60):
    at = 16 * (i % 32)
    loss = step(tf.constant(x[at:at + 16]), tf.constant(y[at:at + 16]))
    print(i, repr(float(loss)))
    {each}
print("END")
"""
FIT = """
import numpy as np, tensorflow as tf
tf.keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(960, 8)).astype("float32")
y = (x[:, 0] > 0).astype("float32")
{data}
def loss_of(t, p):
    {loss}
model = tf.keras.Sequential([
    tf.keras.layers.Input((8,)), tf.keras.layers.Dense(8, name="hidden"), tf.keras.layers.Dropout(0.2),
    tf.keras.layers.Dense(1, activation="sigmoid", name="head"),
])
model.compile("adam", loss_of)
log = model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(16), epochs=2, verbose=0)
print([repr(v) for v in log.history["loss"]])
print("END", float(tf.reduce_sum(tf.abs(model.weights[0]))))
"""
LOGARITHM = "loss = tf.reduce_mean(tf.math.log(tf.abs(p * b)))"
SQUARE = "loss = tf.reduce_mean((p - b) ** 2)"
MEAN = "return tf.reduce_mean((tf.reshape(t, [-1]) - p[:, 0]) ** 2)"


def loop(data: str = "", rate: float = 0.01, loss: str = SQUARE, jit: bool = False, each: str = "pass") -> str:
    return LOOP.format(data=data, rate=rate, loss=loss, jit=jit, each=each)


HEALTHY = loop() + loop(jit=True) + FIT.format(data="", loss=MEAN) + FIT.format(data="x[900:] *= np.nan", loss=MEAN)
SCRIPTS = {
    "logarithm": loop("y[405] = 0", loss=LOGARITHM),
    "logarithm, XLA": loop("y[405] = 0", loss=LOGARITHM, jit=True),
    "root": loop("x[:] = 0", loss="loss = tf.reduce_sum(tf.sqrt(tf.reduce_sum(p ** 2, axis=1)))"),
    "data": loop("x[100, 3] = np.nan"),
    "rate": loop(rate=50.0),
    "masked": loop(
        loss="q = tf.where(b > 9, tf.math.log(0 * b), p); loss = tf.reduce_mean(tf.math.log(tf.nn.relu(q)))"
    ),
    "fit": FIT.format(
        data="x[320:] *= 1000", loss="return -tf.reduce_mean(tf.math.log(1 - p[:, 0]) * tf.reshape(1 - t, [-1]))"
    ),
    "several batches": FIT.format(
        data="x[320:] *= 1000", loss="return -tf.reduce_mean(tf.math.log(1 - p[:, 0]))"
    ).replace('compile("adam", loss_of)', 'compile("adam", loss_of, steps_per_execution=4)'),
    "limit": "from slowtrain.capture.nonfinite import variable_values\n"
    "share, variable_values.BUDGET_SHARE = variable_values.BUDGET_SHARE, 1e-12\n"
    + loop("y[405] = 0", loss=LOGARITHM, each="__import__('time').sleep(0.02)")
    + "variable_values.BUDGET_SHARE = share\n",
    "healthy": HEALTHY,
    # ResNet50 with Adam has as much; the limit is an eighth of what is free.
    "a third of a gigabyte": loop(
        "y[405] = 0\nlarge = tf.Variable(tf.zeros([80_000_000]))", loss=f"{LOGARITHM} + large[0]"
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, running.Done]:
    scripts = {"alone": running.Script(HEALTHY, recorded=False)}
    scripts |= {name: running.Script(text, on_nonfinite="report") for name, text in SCRIPTS.items()}
    return running.run_series(tmp_path_factory.mktemp("checked"), scripts)


def checked(done: running.Done) -> tuple[Trace, dict[str, Any]]:
    trace = recording_trace.load_recording(done.folder)
    assert trace.facts.get("faults", []) == []
    (event,) = trace.events_of("checked")
    return trace, dict(event.data)


@pytest.mark.parametrize("name", ["logarithm", "logarithm, XLA"])
def test_a_logarithm_of_zero_in_a_later_step(name: str, runs: dict[str, running.Done]) -> None:
    done = runs[name]
    assert done.code == 0, done.err
    assert "END" in done.out
    trace, found = checked(done)
    printed = [float(row.split()[1].strip("'")) for row in done.out.splitlines()[:60]]
    first = next(i for i, v in enumerate(printed, 1) if not math.isfinite(v))
    assert found["step"] == first
    origin = found["origin"]
    assert (origin["type"], origin["site"][1]) == ("Log", running.line(SCRIPTS[name], "math.log"))
    assert origin["inputs"][0]["zero"] > 0
    assert not origin["gradient"]
    cause = next(d for d in diagnose.diagnose_trace(trace).diagnoses if d.cause == "numerics/nonfinite-loss")
    assert f"from step {first} on: Log" in cause.evidence.says
    assert "1e-7" in cause.prescriptions[0].says


def test_the_gradient_of_a_root_at_zero_in_the_very_first_step(runs: dict[str, running.Done]) -> None:
    _, found = checked(runs["root"])
    origin = found["origin"]
    assert found["step"] == 1  # its loss is finite: the weights are not, after it
    assert origin["gradient"]
    assert origin["of"] == "Sqrt"
    assert origin["site"][1] == running.line(SCRIPTS["root"], "tf.sqrt")


def test_numbers_that_are_none_in_the_data(runs: dict[str, running.Done]) -> None:
    _, found = checked(runs["data"])
    assert (found["step"], found["origin"]["kind"]) == (7, "data")
    assert found["origin"]["output"]["nan"] == 1


def test_a_rate_that_is_too_high_overflows(runs: dict[str, running.Done]) -> None:
    _, found = checked(runs["rate"])
    assert found["origin"]["kind"] == "op"
    assert found["origin"]["output"]["nan"] + found["origin"]["output"]["inf"]


def test_an_infinity_that_is_masked_away_is_not_blamed(runs: dict[str, running.Done]) -> None:
    _, found = checked(runs["masked"])
    assert found["origin"]["type"] == "Log"
    assert found["origin"]["inputs"][0]["most"] > 0


def test_stop_ends_the_script_as_ctrl_c_does_even_in_a_background_job(tmp_path: Path) -> None:
    """A shell begins a background job with interrupts ignored, so that its own Ctrl-C does not reach it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        script = running.write(tmp_path, loop("x[100, 3] = np.nan", each="__import__('time').sleep(0.05)"))
        env = {"SLOWTRAIN_ON_NONFINITE": "stop"}
        done = running.recorded(tmp_path / "run", script, windows=False, env=env)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.code == 130
    assert "KeyboardInterrupt" in done.err
    assert "END" not in done.out
    assert checked(done)[1]["stopped"]


def test_fit_names_step_and_line(runs: dict[str, running.Done]) -> None:
    _, found = checked(runs["fit"])
    assert found["step"] == 21
    assert (found["origin"]["type"], found["origin"]["site"][1]) == ("Log", running.line(SCRIPTS["fit"], "math.log"))


def test_of_several_batches_in_one_call_it_says_why_and_what_to_do(runs: dict[str, running.Done]) -> None:
    trace, found = checked(runs["several batches"])
    assert "origin" not in found
    cause = next(d for d in diagnose.diagnose_trace(trace).diagnoses if d.cause == "numerics/nonfinite-loss")
    assert any(
        "one call takes several batches inside its graph (steps_per_execution), of which none can be kept; "
        "run it once with steps_per_execution=1" in says
        for says in (cause.evidence.says, *(p.says for p in cause.prescriptions))
    )


def test_training_is_the_same_to_the_last_bit_before_and_after_the_report(runs: dict[str, running.Done]) -> None:
    with_it, without = runs["healthy"], runs["alone"]
    assert with_it.code == without.code == 0
    assert with_it.out == without.out
    assert with_it.out.count("END") == 4
    trace, found = checked(with_it)
    assert found["origin"]["kind"] == "data"
    assert found["step"] == 120 + 57  # of the two fits: nothing is reported of what is healthy
    assert trace.fact("subnormals", "of")  # the variables were looked through


def test_variables_of_a_third_of_a_gigabyte_are_kept(runs: dict[str, running.Done]) -> None:
    if (free_bytes() or 0) < 4e9:
        pytest.skip("too little memory is free here")
    _, found = checked(runs["a third of a gigabyte"])
    assert found["origin"]["type"] == "Log"


def test_a_limit_is_said_with_both_sizes(runs: dict[str, running.Done]) -> None:
    _, found = checked(runs["limit"])
    assert "variables take 0 MB, and up to 0 MB are kept, an eighth of the memory that is free" in found["unknown"]
