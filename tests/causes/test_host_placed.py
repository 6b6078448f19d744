"""What the host computes within a program of JAX: its name, the user's line, and what to do there."""

from __future__ import annotations

import json

from msgspec.structs import replace

from slowtrain.causes.compute.host_placed_ops import HostPlacedOps
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Diagnosis, IdleGap, Place

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

CALLED = """
step     1111111111
device   kk.......k
host-op  ..ddddddd.
@fact keras={"backend":"jax"}
@device busy=3 ms=3 kernels=60 idle={"host-op":7}
& ops={"loss/pure_callback:XlaCustomCall":[0.1,1],"loss/sub:XlaFusion":[2,1]}
"""


def test_a_callback_is_named_with_its_line() -> None:
    trace = parse_drawing(CALLED)
    assert trace.device is not None
    lines = {"loss/pure_callback:XlaCustomCall": (Place("t.py", 7),), "loss/sub:XlaFusion": (Place("t.py", 8),)}
    gap = IdleGap(2.0, 7.0, "host-op", 1.0, "pure_callback.1")
    (found,) = diagnose_trace(
        replace(trace, device=replace(trace.device, places=lines, gaps=(gap,))), [HostPlacedOps()]
    ).diagnoses
    assert found.evidence.says.endswith("computes: pure_callback.1")
    assert found.evidence.where == (Place("t.py", 7),)
    assert [p.says for p in found.prescriptions if "tf." in p.says] == []


def test_without_a_name_the_sentence_is_whole() -> None:
    (found,) = diagnose_trace(parse_drawing(CALLED), [HostPlacedOps()]).diagnoses
    assert found.evidence.says.endswith("computes")
    assert found.evidence.where == ()


EIGEN = """import tensorflow as tf


@tf.function
def step(x):
    z = model(x)
    c = tf.matmul(z, z, transpose_a=True) / 8.0
    return tf.reduce_max(tf.abs(tf.linalg.eigvals(c)))
"""
WAITED = """
step     1111111111
device   kk.......k
dispatch ..ddddddd.
@fact devices=[{"kind":"GPU"}]
@event trace name=step start=0 end=1 data={"training":true,"file":"train.py","line":4}
@device busy=3 ms=3 kernels=60 idle={"host-op":7}
"""


def _found(kind: str, text: str) -> Diagnosis:
    trace = parse_drawing(f"{WAITED}@fact sources={json.dumps({'train.py': text})}")
    assert trace.device is not None
    gap = IdleGap(2.0, 7.0, "host-op", 1.0, f"{kind}:{kind}")
    (found,) = diagnose_trace(replace(trace, device=replace(trace.device, gaps=(gap,))), [HostPlacedOps()]).diagnoses
    return found


def test_an_op_of_a_plain_function_has_its_line_and_a_cure_that_is_possible() -> None:
    found = _found("Eig", EIGEN)
    assert found.evidence.where == (Place("train.py", 8),)
    assert "+    return tf.reduce_max(tf.abs(tf.linalg.eigvalsh(c)))" in (found.prescriptions[0].diff or "")
    assert [p.says for p in found.prescriptions if "input pipeline" in p.says or "jit_compile" in p.says] == []


def test_what_needs_only_the_batch_goes_into_the_input() -> None:
    found = _found(
        "Unique", EIGEN.replace("    return tf.reduce_max", "    u = tf.unique(x)\n    return tf.reduce_max")
    )
    assert found.evidence.where == (Place("train.py", 8),)
    assert "map of the input pipeline" in found.prescriptions[0].says


def test_without_its_text_both_ways_are_told() -> None:
    found = _found("Unique", "import tensorflow as tf\n")
    assert found.evidence.where == ()
    assert any("input pipeline" in p.says for p in found.prescriptions)
    assert any("jit_compile" in p.says for p in found.prescriptions)
