"""What stands behind a node, as it was written: a cache there, or a cut that leaves one incomplete."""

from __future__ import annotations

import pytest

from slowtrain.trace.caching import kept_or_cut
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
