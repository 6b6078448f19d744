"""What stands behind a node, as it was written: a cache there, or a cut that leaves one incomplete."""

from __future__ import annotations

import pytest

from slowtrain.diagnose import examine
from slowtrain.trace.caching import kept_or_cut, passes
from slowtrain.trace.drawn import drawn
from slowtrain.trace.pipeline import Node, Pipeline, Written


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param("TextLine Skip Take Map Batch", False, id="a take of all in front, which becomes no node"),
        pytest.param("TextLine Map Take Batch", True, id="cut behind it"),
        pytest.param("TextLine Map Cache Batch", True, id="kept behind it"),
        pytest.param("TextLine Cache Map Batch", False, id="kept in front of it"),
        pytest.param("TextLine Map Batch", False, id="neither"),
    ],
)
def test_whether_a_cache_stands_behind_a_map_or_would_be_incomplete(operations: str, expected: bool) -> None:
    ops = [f"{name}Dataset" for name in operations.split()]
    written = tuple(Written(op, (i - 1,) if i else ()) for i, op in enumerate(ops))
    ran = [w for w in written if w.family != "Take"]  # TensorFlow drops a take of all
    node = next(
        Node(i, w.family, (), 1.0, 1.0, None, False, None, 0.0, 0.0, w) for i, w in enumerate(ran) if w.family == "Map"
    )
    assert kept_or_cut(Pipeline(written), [node]) == expected


FIRST_PASS = """
    step    1111111111
    input   iiiiiii...
    device  .......kkk
    @fact machine={{"memory":{{"available_bytes":8e9}}}}
    @event loop name=fit start=0 end=10 data={{"epochs":{epochs},"steps_per_epoch":{steps}}}
    @pipeline epochs=1 > Slices ms=0.1 elements=16 detail={{"cardinality":6400}}
    > ParallelMapV2 ms=18 elements=16 parallelism=2 line=12
    detail={{"cardinality":6400,"element":[{{"shape":[64,64,3],"bytes":4}}]}}
    > Batch ms=0.1 detail={{"cardinality":{length}}}
"""


@pytest.mark.parametrize(
    ("epochs", "steps", "length", "expected"),
    [
        pytest.param(3, "null", 400, 3, id="ended within the first of three"),
        pytest.param(3, "null", 10, 1, id="the first was made, and no other: stopped early"),
        pytest.param(3, 100, 400, 1, id="epochs of so many steps are no passes"),
        pytest.param(1, "null", 400, 1, id="one was asked for"),
        pytest.param('"3"', "null", 400, 1, id="a damaged recording"),
    ],
)
def test_passes_that_a_recording_did_not_come_to(epochs: object, steps: object, length: int, expected: int) -> None:
    trace = drawn(FIRST_PASS.format(epochs=epochs, steps=steps, length=length))
    assert trace.pipeline is not None
    assert passes(trace, trace.pipeline) == expected
    causes = [d.cause for d in examine(trace).diagnoses]
    assert ("input/uncached-input" in causes) == (expected > 1)
