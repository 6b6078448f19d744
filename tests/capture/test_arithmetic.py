"""Arrays of NumPy's at lines that multiply, met by a real process: how many of their numbers are subnormal."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from slowtrain.capture.nonfinite.subnormal_values import arithmetic_operands
from slowtrain.recording import reader

from . import running

FADES = """
import time
import numpy as np

class Surface:
    def __init__(self):
        self.state = np.full(300_000, {first}, np.{dtype})
        self.count = 0

    def advance(self):
        self.state *= self.state.dtype.type(0.7)
        self.count += 1

surface, end = Surface(), time.monotonic() + 3
while time.monotonic() < end:
    surface.advance()
print("END")
"""


@pytest.mark.bench  # it measures what the line costs
@pytest.mark.parametrize(("dtype", "first"), [("float32", 1e-36), ("float64", 1e-306)])
def test_an_array_that_fades(tmp_path: Path, dtype: str, first: float) -> None:
    script = FADES.format(dtype=dtype, first=first)
    done = running.recorded(tmp_path / "run", running.write(tmp_path, script))
    assert (done.code, done.out) == (0, "END\n"), done.err
    facts = reader.read_recording(done.folder).facts
    assert facts.get("faults", []) == []
    (told,) = facts["subnormal_arrays"]
    line = next(i for i, text in enumerate(script.splitlines(), 1) if "*=" in text)
    assert (told["name"], told["line"], told["size"], told["dtype"]) == ("self.state", line, 300_000, dtype)
    assert told["share"] > 0.9
    assert told["cost"] > 0.5  # what it is goes by the processor


def test_an_array_of_usual_numbers_is_not_told_of(tmp_path: Path) -> None:
    script = FADES.replace("0.7", "1.0").format(dtype="float32", first=0.5)
    done = running.recorded(tmp_path / "run", running.write(tmp_path, script))
    assert "subnormal_arrays" not in reader.read_recording(done.folder).facts


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("self.state *= fade", ["self.state", "fade"]),
        ("x = a.b[3] / (c + d)", ["a.b[3]", "c + d"]),
        ("for p, e in zip(ps, es): e *= g * l", ["e", "g * l", "g", "l"]),
        ("x = np.multiply(a, b) + c", []),
    ],
)
def test_what_is_multiplied_at_a_line(line: str, said: list[str]) -> None:
    assert [name for name, _ in arithmetic_operands(ast.parse("pass\n" + line), 2)] == said
