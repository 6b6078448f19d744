"""What of a step on a GPU follows its batch, and what is the host's whatever the batch."""

from __future__ import annotations

import pytest

from slowtrain.causes.compute.small_batch import SmallBatch
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Category
from slowtrain.trace.signals.device import op_work
from slowtrain.trace.signals.device.batch_curve import batch_dependent_ms

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

# A step of 10 ms of which the device computes for two: 100 kernels, of 0.005 ms each what does not compute.
WAITING = """
step     1111111111
dispatch ddddddd...
h2d      .......h..
device   ........kk
@steps size=16 line=9
@event loop name=fit data={"data": {"shape": [20000, 48, 48, 1]}}
@fact devices=[{"kind":"GPU"}]
@device busy=2 ms=2 kernels=100 copies={"h2d":[2,600000,0.02,0.02]}
@kernels busy=2 ms=2 ops={"m/conv/Conv2D:Conv2D": [1.5, 1], "m/add:Add": [0.5, 100]}
"""


def test_calls_from_the_host_do_not_follow_the_batch() -> None:
    trace = parse_drawing(WAITING)
    assert trace.on_accelerator
    # The convolution but for one start, and 0.6 MB at the pace of ordinary memory.
    assert batch_dependent_ms(trace) == pytest.approx(1.495 + 0.1, rel=0.01)
    (found,) = diagnose_trace(trace, [SmallBatch()]).diagnoses
    assert found.evidence.numbers["goal"] == 64
    assert 2 < found.saving.speedup < 4


@pytest.mark.parametrize(
    ("changed", "to"),
    [
        ("size=16", "size=64"),  # four times as many is what people have no reason for
        ("dispatch ddddddd...", "input    iiiiiii..."),  # input is made sample by sample
        ("dispatch ddddddd...", "python   ppppppp..."),  # as may be what the loop's own Python does
        ('[{"kind":"GPU"}]', '[{"kind":"CPU"}]'),  # sixteen is a choice on a processor
    ],
)
def test_a_batch_that_is_no_longer_small_or_that_the_step_follows(changed: str, to: str) -> None:
    assert changed in WAITING
    assert not diagnose_trace(parse_drawing(WAITING.replace(changed, to)), [SmallBatch()]).diagnoses


def test_ops_gone_from_a_gpu_free_no_time_of_the_host() -> None:
    assert op_work.ms_of_streaming_ops(parse_drawing(WAITING), 0.5, 0.3) == {Category.DEVICE: 0.3}
    on_cpu = op_work.ms_of_streaming_ops(parse_drawing(WAITING.replace('"GPU"', '"CPU"')), 0.5, 0.3)
    assert on_cpu[Category.DISPATCH] > 0
