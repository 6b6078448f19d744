"""Where a loss became NaN and no step was run again, the text shows the line that can make it."""

from __future__ import annotations

import textwrap

import pytest
from msgspec.structs import replace

from slowtrain.causes.numerics.nonfinite_loss import NonfiniteLoss
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Diagnosis

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

SCRIPT = """
    import tensorflow as tf

    def distance(u, v):
        return tf.sqrt(tf.reduce_sum((u - v) ** 2, axis=-1) FLOOR)

    def loss_of(a, b):
        return tf.reduce_mean(distance(net(a), net(b)))

    @tf.function
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = loss_of(a, b)
        opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        return loss
"""
NAN = """
step    1111
device  kkkk
@steps source=step line=15
@event nonfinite name=loss start=20 data={"step": 5, "value": "nan"}
"""
AGAIN = """@event checked name=step start=20 end=30 data={"mode":"stop","stopped":true,"step":7,"replayed":3,"origin":
& {"kind":"op","type":"Log","site":["train.py",9],"gradient":false,"of":"Log","inputs":[],"output":{"nan":1}}}
"""


def found(drawing: str, floor: str = "") -> Diagnosis:
    trace = parse_drawing(drawing)
    text = textwrap.dedent(SCRIPT).lstrip("\n").replace(" FLOOR", floor)
    (one,) = diagnose_trace(
        replace(trace, facts={**trace.facts, "sources": {"train.py": text}}), [NonfiniteLoss()]
    ).diagnoses
    return one


def test_a_root_under_a_tape_two_calls_away() -> None:
    one = found(NAN)
    assert [p.line for p in one.evidence.where] == [4, 15]
    assert "can make such numbers" in one.evidence.says
    assert one.prescriptions[0].says == "keep the argument of the root above 1e-7"


@pytest.mark.parametrize(
    ("drawing", "floor", "line"),
    [pytest.param(NAN, " + 1e-9", 15, id="it has a floor"), pytest.param(NAN + AGAIN, "", 9, id="the op is known")],
)
def test_no_line_is_suspected_without_a_reason(drawing: str, floor: str, line: int) -> None:
    one = found(drawing, floor)
    assert one.evidence.where[0].line == line
    assert "can make such numbers" not in one.evidence.says
