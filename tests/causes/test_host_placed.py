"""What the host computes within a program of JAX: its name, the user's line, and what to do there."""

from __future__ import annotations

from dataclasses import replace

from slowtrain.causes.compute.host_placed_ops import HostPlacedOps
from slowtrain.diagnose import examine
from slowtrain.model import IdleGap, Place
from slowtrain.trace.drawn import drawn

CALLED = """
step     1111111111
device   kk.......k
host-op  ..ddddddd.
@fact keras={"backend":"jax"}
@device busy=3 ms=3 kernels=60 idle={"host-op":7}
& ops={"loss/pure_callback:XlaCustomCall":[0.1,1],"loss/sub:XlaFusion":[2,1]}
"""


def test_a_callback_is_named_with_its_line() -> None:
    trace = drawn(CALLED)
    assert trace.device is not None
    lines = {"loss/pure_callback:XlaCustomCall": (Place("t.py", 7),), "loss/sub:XlaFusion": (Place("t.py", 8),)}
    gap = IdleGap(2.0, 7.0, "host-op", 1.0, "pure_callback.1")
    (found,) = examine(
        replace(trace, device=replace(trace.device, places=lines, gaps=(gap,))), [HostPlacedOps()]
    ).diagnoses
    assert found.evidence.says.endswith("computes: pure_callback.1")
    assert found.evidence.where == (Place("t.py", 7),)
    assert [p.says for p in found.prescriptions if "tf." in p.says] == []


def test_without_a_name_the_sentence_is_whole() -> None:
    (found,) = examine(drawn(CALLED), [HostPlacedOps()]).diagnoses
    assert found.evidence.says.endswith("computes")
    assert found.evidence.where == ()
