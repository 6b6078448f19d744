"""What TensorFlow's counters say of each node, once what is no work of its own is taken off."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.columns.input_pipeline import WrittenDataset
from slowtrain.trace.loading import iterator_counters
from slowtrain.trace.loading.iterator_counters import IteratorCounters


def node(name: str, inputs: list[int], ms: float, elements: float) -> dict[str, object]:
    return {
        "name": name, "inputs": inputs, "processing_ns": ms * 1e6, "elements": elements, "bytes_produced": 0.0,
        "buffered_bytes": 0.0, "parameters": {},
    }  # fmt: skip


def _shuffle_ms(behind: str) -> float:
    """Of a shuffle that counted 60 ms over ten batches of 32, behind a map of that name."""
    nodes = {
        1: node("Root", [2], 0, 10),
        2: node("Batch", [3], 1, 10),
        3: node("Shuffle", [4], 60, 320),
        4: node(behind, [], 200, 320),
    }
    found = iterator_counters.pipeline_between((), None, IteratorCounters(nodes, 1, (), None), None, keras=False)
    return next(n.ms for n in found.nodes if n.name == "Shuffle")


def test_a_shuffle_that_waits_for_a_parallel_map_does_not_count_that_as_its_work() -> None:
    assert _shuffle_ms("Map") == pytest.approx(6.0)
    assert _shuffle_ms("ParallelMapV2") == pytest.approx(32 * iterator_counters.MAX_SHUFFLE_US / 1e3)


def _reading(made: float, batches: float, ms: float = 0.0, *, ended: bool = False) -> IteratorCounters:
    nodes = {1: node("Root", [2], 0, batches), 2: node("BatchV2", [] if ended else [3], 1, batches)}
    if not ended:
        nodes |= {3: node("Shuffle", [4], 0, 0), 4: node("ParallelMapV2", [], ms, made)}
    return IteratorCounters(nodes, 1, (), None)


def test_what_a_shuffle_takes_in_at_once_costs_what_it_costs_where_it_was_seen() -> None:
    """TensorFlow forgets what is behind a shuffle once all of an epoch's data lies in its buffer.

    So an iterator is read before its map has begun and when the epoch is over; another one in between, and no more.
    """
    whole = [_reading(0, 0), _reading(0, 10, ended=True)]
    between = [_reading(0, 0), _reading(160, 0, 40.0)]
    plan: tuple[WrittenDataset, ...] = (WrittenDataset("BatchDataset", (), None, {"batch_size": 32}),)
    found = iterator_counters.merge_iterators(plan, [(whole, None), (between, None), (whole, None)], keras=True)
    (mapped,) = (n for n in found.nodes if n.name == "ParallelMapV2")
    assert mapped.elements == pytest.approx(32)
    assert mapped.ms == pytest.approx(32 * 40.0 / 160)
    unseen = iterator_counters.merge_iterators(plan, [(whole, None), (whole, None)], keras=True)
    assert next(n.ms for n in unseen.nodes if n.name == "ParallelMapV2") == 0


def _pass(
    number: int, given: float, repeated: float, ms: float, name: str = "ParallelMapV2", repeat: str = "ForeverRepeat"
) -> IteratorCounters:
    """A reading in some pass of a repeated map: TensorFlow makes a node of another number for each."""
    nodes = {
        1: node("Root", [2], 0, repeated / 32), 2: node("BatchV2", [3], 1, repeated / 32),
        3: node(repeat, [number], 0, repeated), number: node(name, [number + 1], ms, given),
        number + 1: node("TensorSlice", [], ms / 10, given),
    }  # fmt: skip
    return IteratorCounters(nodes, 1, (), None)


@pytest.mark.parametrize("repeat", ["ForeverRepeat", "FiniteRepeat", "ShuffleAndRepeat"])
def test_what_is_repeated_costs_what_it_costs_in_a_whole_pass(repeat: str) -> None:
    """The last pass has only begun when it is read, and the counters of those before it are gone."""
    passes = [(10, 300, 300, 60.0), (20, 320, 640, 64.0), (30, 1, 641, 0.2)]
    readings = [_pass(*one, repeat=repeat) for one in passes]
    found = iterator_counters.merge_iterators((), [(readings, None)], keras=True)
    (mapped,) = (n for n in found.nodes if n.name == "ParallelMapV2")
    assert mapped.elements == pytest.approx(32)
    assert mapped.ms == pytest.approx(32 * 0.2)
    (read,) = (n for n in found.nodes if n.name == "TensorSlice")
    assert read.elements == pytest.approx(32)
    assert read.ms == pytest.approx(32 * 0.02)


def test_a_pass_that_fills_a_cache_does_not_speak_for_those_that_read_it() -> None:
    plan = (WrittenDataset("CacheDataset", (), None, {}),)
    readings = [_pass(10, 320, 320, 640.0, "MemoryCache"), _pass(20, 200, 520, 2.0, "MemoryCache")]
    found = iterator_counters.merge_iterators(plan, [(readings, None)], keras=True)
    assert next(n.ms for n in found.nodes if n.name == "MemoryCache") == pytest.approx(32 * 0.01)


def test_a_repeat_that_feeds_itself_ends() -> None:
    """No TensorFlow writes that; a damaged recording may say anything."""
    readings = [_pass(10, 300, 300, 60.0), _pass(20, 320, 640, 64.0)]
    for reading, number in zip(readings, (11, 21), strict=True):
        reading.nodes[number]["inputs"] = [3]  # type: ignore[index]
    assert iterator_counters.merge_iterators((), [(readings, None)], keras=True).batches == 20


def test_nodes_of_data_sets_that_are_made_for_elements_are_not_the_written_ones() -> None:
    """``window(5).flat_map(lambda w: w.batch(5)).map(split).batch(32)``: the batch in the lambda runs first."""
    names = ["TensorSlice", "Window", "Window", "BatchV2", "FlatMap", "MapAndBatch", "Prefetch"]
    nodes = {i: node(name, [i + 1] if i < 7 else [], 1, 10) for i, name in enumerate(reversed(names), start=1)}
    nodes[0] = node("Root", [1], 0, 10)
    ops = ["TensorSliceDataset", "WindowDataset", "FlatMapDataset", "MapDataset", "BatchDataset", "PrefetchDataset"]
    plan = tuple(WrittenDataset(op, (i - 1,) if i else (), None, {}) for i, op in enumerate(ops))
    found = iterator_counters.pipeline_between(plan, None, IteratorCounters(nodes, 0, (), None), None, keras=False)
    assert [n.written.op if n.written else None for n in found.nodes] == [
        "TensorSliceDataset", "WindowDataset", None, None, "FlatMapDataset", "MapDataset", "PrefetchDataset",
    ]  # fmt: skip


letters = st.lists(st.sampled_from("abc"), max_size=7)


@given(letters, letters)
def test_as_many_nodes_as_can_be_are_found_in_order(ours: list[str], theirs: list[str]) -> None:
    pairs = iterator_counters.longest_common_pairs(ours, theirs)
    assert all(ours[i] == theirs[j] for i, j in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(pairs))
    subsequences = {s for n in range(len(ours) + 1) for s in itertools.combinations(ours, n)}
    common = subsequences & {s for n in range(len(theirs) + 1) for s in itertools.combinations(theirs, n)}
    assert len(pairs) == max(map(len, common))


def test_two_long_lists_are_not_held_against_each_other() -> None:
    """A data set that grows in every epoch: hundreds of stages, of which the ends alone are matched then."""
    ours, theirs = ["a", *"bc" * 2000, "z"], ["a", *"cb" * 2000, "z"]
    assert iterator_counters.longest_common_pairs(ours, theirs) == [(0, 0), (4001, 4001)]
