"""What the evidence of a sequential map says of the other cores."""

from __future__ import annotations

import pytest

from slowtrain.causes.input.sequential_map import SequentialMap

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package


@pytest.mark.parametrize("drawing", SequentialMap.fires)
@pytest.mark.parametrize("crowded", [False, True])
def test_cores_that_others_take_are_not_called_idle(drawing: str, crowded: bool) -> None:
    others = "\n@sample cpu_mean_share=0.95 process_cpu_seconds=0" if crowded else ""
    trace = parse_drawing(f"{drawing}{others}")
    found = SequentialMap().find(trace)
    assert found is not None
    says = SequentialMap().evidence(trace, found).says
    assert ("are idle" in says) is not crowded
    assert ("while training takes" in says) is crowded
