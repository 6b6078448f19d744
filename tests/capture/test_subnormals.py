"""Subnormal numbers of variables: counted, and told with the variable that holds most of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.nonfinite.subnormal_values import OfferedVariables, SubnormalWatch
from slowtrain.causes.numerics.denormals import Denormals
from slowtrain.recording import reader

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package


def value(numbers: np.ndarray) -> tuple[None, SimpleNamespace]:
    return None, SimpleNamespace(dtype=SimpleNamespace(name=str(numbers.dtype)), _numpy=lambda: numbers)


def test_the_variable_with_most_of_them_is_named(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.open()
    suspected: list[int] = []
    looked = SubnormalWatch(recorder)
    names = {1: "first/kernel", 2: "adam/first_kernel_velocity"}
    usual, small = np.full(60, 0.5, np.float32), np.full(30, 1e-40, np.float32)
    state = {
        1: value(np.concatenate([usual, small[:10]])), 2: value(np.concatenate([usual[:10], small])),
        3: value(np.full(5, 1e-310)), 4: value(np.zeros(90, np.float32)),
    }  # fmt: skip
    looked.offer(OfferedVariables(state, names, "eager", suspected.append))
    looked.look()
    recorder.close()
    told = reader.read_recording(tmp_path).facts["subnormals"]
    assert (told["count"], told["of"]) == (40, 200)
    assert (told["most"], told["where"]) == (30, "adam/first_kernel_velocity of 40 numbers")
    assert not suspected
    assert told["way"] == "eager"
    costs = 'subnormal_cost={"function":1.0,"eager":8.0,"numpy":17.0}'
    trace = parse_drawing(f"step 1111\n@fact subnormals={str(told).replace(chr(39), chr(34))} {costs}")
    found = Denormals().find(trace)
    assert found is not None
    says = found.evidence(trace).says
    assert says.endswith("most of them, 30, are in adam/first_kernel_velocity of 40 numbers")
