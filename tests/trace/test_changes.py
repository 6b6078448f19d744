"""Lines that make an op for each variable or gradient, which no single op replaces."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from slowtrain.model import Place
from slowtrain.trace.signals.host.source_lines import changes_variables

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package


@pytest.mark.parametrize(
    ("line", "each"),
    [
        ("g, _ = tf.clip_by_global_norm(g, 1.0)", True),
        ("for v in variables: v.assign(0.9 * v)", True),
        ("y = tf.stack([f(v) for v in variables])", False),
    ],
)
def test_an_op_for_each_variable(line: str, each: bool) -> None:
    trace = parse_drawing("step 11\ndevice kk")
    trace = replace(trace, facts={**trace.facts, "source": {"train.py": line + "\n"}})
    assert changes_variables(trace, Place("train.py", 1)) is each
