"""What stands behind a node, as it was written: a cache there, or a cut that leaves one incomplete."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from slowtrain.causes.input.uncached_input.caches import (
    JOINING_FAMILIES,
    cache_treatment,
    cached_maps,
    has_later_cache_or_take,
    node_worth_caching,
)
from slowtrain.columns.input_pipeline import Node, Pipeline, WrittenDataset
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Place
from slowtrain.trace.signals.input_feed import expected_passes, is_asked_beyond_end

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package


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
    written = tuple(WrittenDataset(op, (i - 1,) if i else ()) for i, op in enumerate(ops))
    ran = [w for w in written if w.family != "Take"]  # TensorFlow drops a take of all
    node = next(
        Node(i, w.family, (), 1.0, 1.0, None, False, None, 0.0, 0.0, w) for i, w in enumerate(ran) if w.family == "Map"
    )
    assert has_later_cache_or_take(Pipeline(written), [node]) == expected


WORK: dict[str, Any] = {"ops": {"Mul": 1}, "function": {"user": True}}
LINE = Place("train.py", 12)


def chain(*written: tuple[str, dict[str, Any], Place | None]) -> Pipeline:
    found = (
        WrittenDataset(f"{op}Dataset", (i - 1,) if i else (), at, about) for i, (op, about, at) in enumerate(written)
    )
    return Pipeline(tuple(found))


def treated(pipe: Pipeline) -> str | None:
    own = next(w for w in pipe.written if w.place == LINE)
    return cache_treatment(pipe, Node(0, "Map", (), 1.0, 1.0, None, False, None, 0.0, 0.0, own))


SLICES: Any = ("TensorSlice", {}, None)
BATCH: Any = ("Batch", {}, None)
SHUFFLE: Any = ("Shuffle", {}, None)
DRAWING = ("Map", {"ops": {"RandomUniform": 1}, "function": {"user": True}}, Place("train.py", 13))


@pytest.mark.parametrize(
    "before",
    [
        pytest.param([SLICES], id="arrays"),
        pytest.param([("TensorSlice", {}, None), ("TFRecord", {}, None), ("Map", WORK, None)], id="records"),
        pytest.param([SLICES, ("ParallelInterleave", {"ops": {"TextLineDataset": 1}}, None)], id="files"),
    ],
)
@pytest.mark.parametrize(
    "behind",
    [[SHUFFLE, DRAWING, BATCH, ("Prefetch", {}, None)], [BATCH], [("Repeat", {}, None), ("Options", {}, None)]],
)
def test_a_map_that_gives_the_same_in_every_pass_is_cached_from_outside(before: Any, behind: Any) -> None:
    assert treated(chain(*before, ("ParallelMap", WORK, LINE), *behind)) == "cache@train.py:12"


@pytest.mark.parametrize(
    "written",
    [
        pytest.param([SLICES, SHUFFLE, ("Map", WORK, LINE), BATCH], id="shuffled in front: the edit moves that"),
        pytest.param([SLICES, DRAWING, ("Map", WORK, LINE), BATCH], id="drawn in front"),
        pytest.param([SLICES, ("Map", DRAWING[1], LINE), BATCH], id="drawn in it"),
        pytest.param([SLICES, ("Map", WORK | {"ops": {"EagerPyFunc": 1}}, LINE), BATCH], id="Python"),
        pytest.param([SLICES, ("Map", WORK | {"ops": {"ReadVariableOp": 1}}, LINE)], id="a variable may change"),
        pytest.param([SLICES, ("Map", {"function": {"user": True}}, LINE)], id="nobody saw what it does"),
        pytest.param([SLICES, ("Map", WORK | {"function": {"user": False}}, LINE)], id="a library's"),
        pytest.param([SLICES, ("ParallelMap", WORK | {"deterministic": "false"}, LINE)], id="any order"),
        pytest.param([("Repeat", {}, None), ("Map", WORK, LINE)], id="of passes without an end"),
        pytest.param([("Foreign", {}, None), ("Map", WORK, LINE)], id="an unknown source"),
        pytest.param([SLICES, ("Map", WORK, LINE), ("Take", {}, None)], id="cut behind it"),
        pytest.param([SLICES, ("Map", WORK, LINE), ("Zip", {}, None)], id="as long as another"),
        pytest.param([SLICES, ("Map", WORK, LINE), ("Cache", {}, None)], id="kept already"),
        pytest.param([SLICES, ("Map", WORK, LINE), ("Map", WORK, LINE)], id="two on one line"),
        pytest.param([SLICES, ("MapAndBatch", WORK, LINE)], id="no call of map"),
    ],
)
def test_where_a_doubt_is_left_nothing_is_cached_from_outside(written: Any) -> None:
    assert treated(chain(*written)) is None


@pytest.mark.parametrize("machine", ["", "working_folder"])
def test_the_cure_without_an_edit_is_of_the_memory_alone(machine: str) -> None:
    """What fits on the disk only is no cache in memory."""
    elements = 160 if not machine else 160000
    trace = parse_drawing(OUTSIDE.format(elements=elements))
    (found,) = [d for d in diagnose_trace(trace).diagnoses if d.cause == "input/uncached-input"]
    (cure,) = found.prescriptions
    assert not cure.edits
    assert (cure.treatment, cure.later) == ((None, False) if machine else ("cache@train.py:12", True))


OUTSIDE = """
    step    1111111111
    input   iiiiiii...
    device  .......kkk
    @fact machine={{"memory":{{"available_bytes":8e9}},"working_folder":{{"filesystem":"ext4","free_bytes":2e12}}}}
    @pipeline epochs=5 > Slices ms=0.1 elements=16
    > Map ms=18 elements=16 line=12
    detail={{"cardinality":{elements},"ops":{{"Mul":1}},"function":{{"user":true}},"element":[{{"shape":[64,64,3],"bytes":4}}]}}
    > Batch ms=0.1
"""

SLOW_READS = """
    step    1111111111
    input   iiiiiiii..
    device  ........kk
    @fact cpu_ms_per_step=3
    & machine={{"memory":{{"available_bytes":8e9}},"working_folder":{{"filesystem":"{filesystem}","free_bytes":2e12}}}}
    @sample iowait_share=0.4
    @pipeline epochs=3 > Slices ms=0.1 > Map ms=9 elements=2 line=3
    detail={{"cardinality":{elements},"ops":{{"ReadFile":1}},"element":[{{"shape":[64,64,3],"bytes":4}}]}}
    > Batch ms=0.1 line=3 > Prefetch line=3
"""
READS_FILES = """import tensorflow as tf
names = [str(n) for n in range(9)]
ds = tf.data.Dataset.from_tensor_slices(names).map(tf.io.read_file).batch(2).prefetch(2)
"""


@pytest.mark.parametrize(
    ("elements", "filesystem", "words"),
    [
        pytest.param(160, "ext4", "keep what was read with .cache(): it fits in memory", id="memory"),
        pytest.param(160_000, "ext4", "keep what was read with .cache(path): it fits on the disk", id="disk"),
        pytest.param(160_000, "nfs", None, id="a network is no faster"),
        pytest.param(160_000_000, "ext4", None, id="too large for both"),
    ],
)
def test_what_slow_storage_gives_is_kept_where_it_fits(elements: int, filesystem: str, words: str | None) -> None:
    trace = parse_drawing(SLOW_READS.format(elements=elements, filesystem=filesystem))
    trace = replace(trace, facts={**trace.facts, "sources": {"train.py": READS_FILES}})
    (found,) = [d for d in diagnose_trace(trace).diagnoses if d.cause == "input/slow-storage"]
    kept = [one for one in found.prescriptions if "cache(" in one.says]
    assert [one.says for one in kept if words is None or words not in one.says] == []
    assert [any("mkdtemp" in edit.text for edit in one.edits) for one in kept] == (
        [words and "path" in words] if words else []
    )
    assert all(one.edits and one.later for one in kept)


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
    trace = parse_drawing(FIRST_PASS.format(epochs=epochs, steps=steps, length=length))
    assert trace.pipeline is not None
    assert expected_passes(trace, trace.pipeline) == expected
    causes = [d.cause for d in diagnose_trace(trace).diagnoses]
    assert ("input/uncached-input" in causes) == (expected > 1)


@pytest.mark.parametrize(
    ("epochs", "steps", "beyond"),
    [
        pytest.param(3, "null", True, id="each epoch ends where the iterator is empty"),
        pytest.param(1, "null", False, id="after the only epoch nothing is trained"),
        pytest.param(3, 100, False, id="epochs of so many steps"),
    ],
)
def test_a_fit_that_asks_beyond_the_end(epochs: int, steps: object, beyond: bool) -> None:
    assert is_asked_beyond_end(parse_drawing(FIRST_PASS.format(epochs=epochs, steps=steps, length=400))) == beyond


def test_another_fit_trains_after_the_only_epoch() -> None:
    one = FIRST_PASS.format(epochs=1, steps="null", length=400)
    event = next(line for line in one.splitlines() if "@event loop" in line)
    assert is_asked_beyond_end(parse_drawing(one.replace(event, f"{event}\n{event}")))


def branches(left_ms: float, right_ms: float, joined: str = "Zip", **right: Any) -> Pipeline:
    """Two maps over 160 elements, of 4 KB each, that are joined; the batch behind it."""
    element = {"cardinality": 160, "element": [{"shape": [1024], "bytes": 4}]}
    written = (
        WrittenDataset("TensorSliceDataset"), WrittenDataset("ParallelMapDataset", (0,), LINE, element),
        WrittenDataset("TensorSliceDataset"), WrittenDataset("ParallelMapDataset", (2,), LINE, element | right),
        WrittenDataset(f"{joined}Dataset", (1, 3), Place("train.py", 15), element), WrittenDataset("BatchDataset",
        (4,), None, {}),
    )  # fmt: skip
    took = (0.1, left_ms, 0.1, right_ms, 0.0, 0.1)
    nodes = (
        Node(i, w.op.removesuffix("Dataset"), w.inputs, ms, 16.0, None, False, None, 0.0, 0.0, w)
        for i, (w, ms) in enumerate(zip(written, took, strict=True))
    )
    return Pipeline(written, tuple(nodes), 100, epochs=5)


@pytest.mark.parametrize("joined", JOINING_FAMILIES)
def test_what_joins_stands_for_maps_of_which_none_is_most_of_the_work(joined: str) -> None:
    trace, pipe = parse_drawing("step 1111111111"), branches(9.0, 9.0, joined)
    found = node_worth_caching(trace, pipe)
    assert found is not None
    assert (found[0].name, found[1]) == (joined, 160 * 4096.0)
    assert [n.id for n in cached_maps(pipe, found[0])] == [1, 3]


def test_a_map_that_is_most_of_the_work_stands_for_itself() -> None:
    found = node_worth_caching(parse_drawing("step 1111111111"), branches(12.0, 3.0))
    assert found is not None
    assert found[0].id == 1


def test_a_zip_of_something_random_is_not_kept() -> None:
    assert node_worth_caching(parse_drawing("step 1111111111"), branches(9.0, 9.0, ops={"RandomUniform": 1})) is None
