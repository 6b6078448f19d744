"""What XLA costs at the start and spares in the steps: who asked for it, both prices, and the cures."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from slowtrain import diagnose
from slowtrain.causes.startup.slow_startup import FIRST_RUN_MS, SlowStartup, XlaPrice, fix
from slowtrain.model import Diagnosis
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source, parse_source
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

RECORDED = Path(__file__).parents[3] / "shared/traces/tf-h200"
on_gpu = pytest.mark.skipif(not RECORDED.exists(), reason="../shared/traces/tf-h200 is absent")

STARTED = """
    step    1111111111
    device  kk........
    @fact devices=[{"kind":"GPU"}] sources={"train.py":"TEXT"}
    @phase import=1800 compile=9000
    @device busy=2 kernels=40
    @event compile name=Functional start=0 end=1 data={"jit_compile":true,GIVEN"site":["train.py",1]}
    @event loop name=fit start=0 end=9600 data={"jit_compile":true,"site":["train.py",2]}
    @event trace name=multi_step_on_iterator start=0 end=9000 data={"nth":1,"training":true,"trace_ns":2000000000,
    & "site":["train.py",2],"graph":{"ops":1600,"types":{"Const":500,"ReadVariableOp":100}}}
"""
DEFAULT = "Keras compiles with XLA by default on a GPU"


def started(text: str, given: str = "", keras: str = "3.15.1") -> Trace:
    trace = parse_drawing(STARTED.replace("TEXT", text).replace("GIVEN", given))
    trace.facts["version.keras"] = keras  # type: ignore[index]
    return trace


def found_text(trace: Trace) -> str:
    cause = SlowStartup()
    finding = cause.find(trace)
    assert finding is not None
    return cause.evidence(trace, finding).says


@pytest.mark.parametrize(
    ("text", "given", "default"),
    [
        ("model.compile('sgd')\\nmodel.fit(x)", "", True),
        ("model.compile('sgd', jit_compile='auto')\\nmodel.fit(x)", "", True),
        ("model.compile('sgd', jit_compile=True)\\nmodel.fit(x)", "", False),
        ("model.compile(**settings)\\nmodel.fit(x)", "", False),  # nobody knows
        ("model.compile(**settings)\\nmodel.fit(x)", '"jit_compile_given":"absent",', True),
        ("model.compile(**settings)\\nmodel.fit(x)", '"jit_compile_given":"auto",', True),
        ("model.compile(**settings)\\nmodel.fit(x)", '"jit_compile_given":true,', False),
    ],
)
def test_who_asked_for_xla(text: str, given: str, default: bool) -> None:
    assert (DEFAULT in found_text(started(text, given))) is default


def test_keras_2_compiles_with_xla_only_where_it_is_told_to() -> None:
    assert DEFAULT not in found_text(started("model.compile('sgd')\\nmodel.fit(x)", keras="2.15.0"))


def test_both_prices_stand_in_the_answer() -> None:
    trace = started("model.compile('sgd')\\nmodel.fit(x)")
    found = diagnose.diagnose_trace(trace, [SlowStartup()]).diagnoses[0]
    numbers = found.evidence.numbers
    assert numbers["start_saved_ms"] == 9000 - 2000 - FIRST_RUN_MS
    assert numbers["step_lost_low_ms"] == 0.0  # 450 launches of 4 us: less than the device computes
    assert numbers["step_lost_ms"] == pytest.approx(450 * 0.008 - 2)
    assert numbers["step_lost_high_ms"] == pytest.approx(450 * 0.011 - 2)
    assert numbers["break_even_steps"] == pytest.approx(numbers["start_saved_ms"] / numbers["step_lost_ms"])
    assert numbers["avoidable_ms"] == pytest.approx(numbers["start_saved_ms"] - 40 * numbers["step_lost_ms"])
    assert "6.4 s sooner" in found.prescriptions[0].says
    assert "1.6 ms longer (0 to 3)" in found.prescriptions[0].says
    assert "4,000 steps" in found.prescriptions[0].says
    assert "+model.compile('sgd', jit_compile=False)" in (found.prescriptions[0].diff or "")


def test_no_cure_that_may_make_the_run_longer() -> None:
    price = XlaPrice(6000.0, (1.0, 4.0, 8.0), 1000)  # 2 s are won, or 2 s lost
    assert price.net_ms == 2000.0
    assert price.price_spread[0] == 0.0
    assert price.price_spread[1] * price.net_ms == 5000.0


def test_what_a_step_loses_is_not_known_without_a_graph() -> None:
    price = XlaPrice(6000.0, None, 1000)
    assert price.net_ms == 6000.0
    assert "is not known" in price.says
    assert price.break_even_steps is None


def test_flags_that_an_old_tensorflow_would_die_of_are_not_named() -> None:
    trace = started("model.compile('sgd')\\nmodel.fit(x)")
    for version, named in (("2.15.1", False), ("2.21.0", True)):
        trace.facts["version.tensorflow"] = version  # type: ignore[index]
        says = " ".join(p.says for p in fix.cache_cures(trace))
        assert ("per_fusion_autotune_cache_dir" in says) is named


def changed(text: str, cure: object, line: int = 1) -> str:
    source = parse_source("train.py", text)
    assert isinstance(source, Source)
    done = cure(source, line)  # type: ignore[operator]
    new = edits.edited_text(source, done) if done else text
    ast.parse(new)
    return new


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("m.compile('sgd', jit_compile=True)", "m.compile('sgd', jit_compile=False)"),
        ("m.compile('sgd', jit_compile='auto')", "m.compile('sgd', jit_compile=False)"),
        ("m.compile()", "m.compile(jit_compile=False)"),
        ("m.compile('sgd',)", "m.compile('sgd', jit_compile=False,)"),
        ("m.compile(**given)", None),
        ("m.compile('sgd', jit_compile=flag)", None),
        ("m.compile('sgd', 'mse', None, None, None, False, 1, True)", None),
        ("f = tf.function(step)", None),
        ("f = tf.function(step, jit_compile=True)", "f = tf.function(step, jit_compile=False)"),
    ],
)
def test_xla_is_left_out(text: str, after: str | None) -> None:
    assert changed(text, keras_calls.disable_xla) == (after or text)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("d = d.batch(32)", "d = d.batch(32, drop_remainder=True)"),
        ("d = d.batch(32, False).cache()", "d = d.batch(32, True).cache()"),
        ("d = d.batch(n, drop_remainder=False)", "d = d.batch(n, drop_remainder=True)"),
        ("d = d.padded_batch(8, shapes)", "d = d.padded_batch(8, shapes, drop_remainder=True)"),
        ("d = d.batch(32, drop_remainder=True)", None),
        ("d = d.batch(32, drop_remainder=flag)", None),
        ("d = d.batch(32).unbatch().batch(8)", None),  # nobody can tell which
        ("d = batch(32)", None),
    ],
)
def test_the_last_batch_is_left_out(text: str, after: str | None) -> None:
    assert changed(text, fix.drop_remainder) == (after or text)


def diagnosis(name: str) -> Diagnosis:
    found = diagnose.diagnose_trace(recording_trace.load_recording(RECORDED / name), [SlowStartup()]).diagnoses
    assert len(found) == 1
    return found[0]


@on_gpu
@pytest.mark.parametrize("name", ["g_wide_pictures", "g_transformer_mixed", "s002_sequential", "handmade_conv"])
def test_keras_default_in_recordings_that_do_not_hold_the_argument(name: str) -> None:
    found = diagnosis(name)
    assert found.evidence.says.startswith(DEFAULT)
    assert "compile(..., jit_compile=False)" in found.prescriptions[0].says
    assert "jit_compile=False)" in (found.prescriptions[0].diff or "")
    assert found.evidence.numbers["avoidable_ms"] <= found.evidence.numbers["start_saved_ms"]


@on_gpu
@pytest.mark.parametrize(
    ("name", "step", "ms", "line"), [("g_big_embedding", 195, 1106, 7), ("s001_tfdata", 78, 925, 9)]
)
def test_the_smaller_last_batch_in_recordings(name: str, step: int, ms: float, line: int) -> None:
    found = diagnosis(name)
    assert found.evidence.numbers["last_batch_ms"] == pytest.approx(ms, rel=0.02)
    assert f"in step {step}" in found.evidence.says
    assert found.evidence.where[0].line == line
    cure = found.prescriptions[0]
    assert str(cure.effect) == "changes training"
    assert "drop_remainder=True" in (cure.diff or "")


@on_gpu
def test_steps_that_pay_for_xla_are_no_finding() -> None:
    assert not diagnose.diagnose_trace(
        recording_trace.load_recording(RECORDED / "g_small_dense"), [SlowStartup()]
    ).diagnoses
