"""Arrays in memory that are cut and copied in float32 though bytes would hold them."""

from __future__ import annotations

import pytest

from slowtrain.causes.transfer.wide_input import WideInput
from slowtrain.diagnose import diagnose_trace

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

# 256 pictures of 128 x 128 x 3 in float32 are 50 MB.
ARRAYS = """
step     1111111111
input    iiiiiii...
h2d      .......h..
device   ........kk
@steps size=256 line=4
@fact sources={"train.py":"import numpy as np\\nx = load()\\nx = x.astype('float32') / 255\\nm.fit(x, y)"}
@event loop name=fit data={"site":["train.py",4],"data":{"shape":[9999,128,128,3],"dtype":"float32","levels":256}}
@device busy=2 copies={"h2d":[2,50331648,1,1]}
"""


def test_what_a_byte_could_hold_is_cut_and_copied_wide() -> None:
    (found,) = diagnose_trace(parse_drawing(ARRAYS), [WideInput()]).diagnoses
    assert found.evidence.numbers["made_ms"] == pytest.approx(7 - 0.15)
    assert found.evidence.numbers["saved_share"] == pytest.approx(0.75)
    assert [p.line for p in found.evidence.where] == [3]
    assert 2 < found.saving.speedup < 3  # three quarters of the input and of the copy


@pytest.mark.parametrize(
    ("changed", "to"),
    [
        ('"levels":256', '"levels":0'),  # real numbers
        ("[2,50331648,1,1]", "[2,500331648,1,1]"),  # most of what crosses is something else
        ("input    iiiiiii...\nh2d      .......h..", "dispatch dddddddd.."),  # nobody waits for it
    ],
)
def test_quiet(changed: str, to: str) -> None:
    assert changed in ARRAYS
    assert not diagnose_trace(parse_drawing(ARRAYS.replace(changed, to)), [WideInput()]).diagnoses
