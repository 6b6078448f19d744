"""Which stage of tf.data takes longer late in a run than early."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from slowtrain.causes.drift.growing_step import GrowingStep
from slowtrain.columns.input_pipeline import Pipeline, WrittenDataset
from slowtrain.columns.spans import Event
from slowtrain.model import Category, Evidence, Place
from slowtrain.trace import Trace
from slowtrain.trace.loading import iterator_counters, recorded_pipelines
from slowtrain.trace.loading.iterator_counters import IteratorCounters
from slowtrain.trace.loading.recorded_pipelines import IteratorReadings
from slowtrain.trace.signals.drift import step_growth

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

STEPS, BATCH, EPOCHS = 800, 32, 8
WAITS = f"""
    step    11111
    input   i....
    device  .kkkk
    @repeat {STEPS}
    @more input=0.02
"""
PLAN = (
    WrittenDataset("TensorSliceDataset", (), Place("train.py", 10)),
    WrittenDataset("MapDataset", (0,), Place("train.py", 11)),
    WrittenDataset("BatchDataset", (1,), Place("train.py", 12), {"batch_size": BATCH}),
)
Done = Callable[[float], tuple[float, float, float]]  # of batches: ms of the map, of the batch, elements of the map


def growth_evidence(trace: Trace) -> Evidence | None:
    finding = GrowingStep().find(trace)
    return None if finding is None else GrowingStep().evidence(trace, finding)


def growth_cures(trace: Trace) -> list[str]:
    finding = GrowingStep().find(trace)
    return [] if finding is None else [cure.says for cure in GrowingStep().cures(trace, finding)]


def reading(batches: float, done: Done, below: int = 0) -> IteratorCounters:
    """Totals after so many batches; nodes below the batch have numbers from ``below`` on."""
    mapped, batched, elements = done(batches)

    def node(name: str, inputs: Sequence[int], ms: float, count: float) -> dict[str, object]:
        return {
            "name": name, "inputs": tuple(inputs), "processing_ns": ms * 1e6, "elements": count,
            "bytes_produced": 0, "buffered_bytes": 0, "parameters": {},
        }  # fmt: skip

    nodes = {
        1: node("Root", [2], 0.0, batches),
        2: node("Batch", [below + 3], batched, batches),
        below + 3: node("Map", [below + 4], mapped, elements),
        below + 4: node("TensorSlice", [], 0.01 * batches, elements),
    }
    return IteratorCounters(nodes, 1, (), None)


def growing(more_ms: float, both: float = 0.0) -> Done:
    """Each batch's map takes ``more_ms`` longer than the last one's; the batch itself ``both`` longer."""
    return lambda n: (n + more_ms * n * n / 2, n + both * n * n / 2, BATCH * n)


def fed(trace: Trace, done: Done, every: int = 10, parts: int = 1) -> Trace:
    """The trace with its pipeline, read each ``every`` steps, by so many iterators one after the other."""
    ends, each = trace.steps.end_ms, STEPS // parts
    iterators = []
    for part in range(parts):
        at = np.arange(part * each + min(every, each) - 1, (part + 1) * each, every)
        since = done(float(part * each))

        def own(n: float, part: int = part, since: tuple[float, float, float] = since) -> tuple[float, float, float]:
            a, b, c = (x - y for x, y in zip(done(n + part * each), since, strict=True))
            return a, b, c

        read = [(float(ends[i]), reading(float(i + 1 - part * each), own)) for i in at]
        iterators.append(IteratorReadings(float(trace.steps.start_ms[part * each]), read))
    rows = [([c for _, c in one.read], None) for one in iterators]
    pipe = iterator_counters.merge_iterators(PLAN, rows, keras=False)
    pipe = replace(pipe, course=recorded_pipelines.counter_history(pipe, iterators))
    return replace(trace, pipelines=(pipe,))


def said(trace: Trace) -> str:
    found = step_growth.find_step_growth(trace)
    assert found is not None
    assert found[1].kind == str(Category.INPUT)
    return found[1].says


@pytest.mark.parametrize(("every", "parts"), [(1, 1), (25, 1), (10, EPOCHS), (STEPS // EPOCHS, EPOCHS)])
def test_the_stage_that_takes_longer_for_each_element_is_named(every: int, parts: int) -> None:
    trace = fed(parse_drawing(WAITS), growing(0.02), every, parts)
    found = re.search(
        r"; its tf.data stage Map of line 11 took (\S+) ms a batch at first and (\S+) ms at the end "
        r"\((\S+) µs an element at first, (\S+) µs at the end\)",
        said(trace),
    )
    assert found
    then, now, quick, slow = map(float, found.groups())
    # A batch in the middle of the first quarter, and of the last.
    assert then == pytest.approx(1 + 0.02 * STEPS / 8, rel=0.2)
    assert now == pytest.approx(1 + 0.02 * STEPS * 7 / 8, rel=0.1)
    assert (quick, slow) == pytest.approx((1e3 * then / BATCH, 1e3 * now / BATCH), rel=0.05)
    evidence = growth_evidence(trace)
    assert evidence is not None
    assert [place.line for place in evidence.where] == [11]
    cures = growth_cures(trace)
    assert any("what that stage works on" in says for says in cures)


def test_a_stage_that_takes_more_elements_for_each_batch() -> None:
    """A filter that lets fewer and fewer through: the map before it works as fast as ever."""

    def done(n: float) -> tuple[float, float, float]:
        elements = BATCH * (n + 0.02 * n * n / 2)
        return elements / BATCH, n, elements

    assert re.search(
        r"Map of line 11 took .* at the end \(9\d(\.\d)? elements at first, 4\d\d at the end\)",
        said(fed(parse_drawing(WAITS), done)),
    )


@pytest.mark.parametrize(
    ("more_ms", "both"),
    [
        pytest.param(0.0, 0.0, id="no stage grows: what is waited for is no work of theirs"),
        pytest.param(0.02, 0.02, id="all grow alike: the machine"),
        pytest.param(0.002, 0.0, id="too little for what is waited for"),
    ],
)
def test_no_stage_is_named(more_ms: float, both: float) -> None:
    assert "stage" not in said(fed(parse_drawing(WAITS), growing(more_ms, both)))


def test_counters_that_were_read_once_name_no_stage() -> None:
    trace = fed(parse_drawing(WAITS), growing(0.02), every=STEPS)
    assert trace.pipelines[0].course is None
    assert "stage" not in said(trace)


def test_what_was_read_in_one_half_of_the_run_alone_names_no_stage() -> None:
    trace = fed(parse_drawing(WAITS), growing(0.02))
    pipe = trace.pipelines[0]
    assert pipe.course is not None
    early = pipe.course.end_ms < trace.steps.end_ms[STEPS // 2]
    columns = {
        key: getattr(pipe.course, key)[..., early] for key in ("start_ms", "end_ms", "batches", "ms", "elements")
    }
    assert "stage" not in said(replace(trace, pipelines=(replace(pipe, course=replace(pipe.course, **columns)),)))


def test_readings_under_the_profiler_do_not_count() -> None:
    trace = fed(parse_drawing(WAITS), growing(0.02))
    late = Event("window", "profile", float(trace.steps.start_ms[STEPS // 2]), float(trace.steps.end_ms[-1]))
    assert "stage" not in said(replace(trace, events=(late,)))


def test_data_sets_that_are_made_anew_in_each_epoch_are_one() -> None:
    trace = parse_drawing(WAITS)
    whole = fed(trace, growing(0.02), parts=EPOCHS).pipelines[0]
    assert whole.course is not None
    each = np.array_split(np.arange(len(whole.course.batches)), EPOCHS)
    parts = [
        replace(
            whole,
            course=replace(
                whole.course,
                **{k: getattr(whole.course, k)[..., rows] for k in ("start_ms", "end_ms", "batches", "ms", "elements")},
            ),
        )
        for rows in each
    ]
    assert "stage Map of line 11" in said(replace(trace, pipelines=tuple(parts)))
    other = Pipeline((WrittenDataset("RangeDataset"),), whole.nodes, whole.batches, course=whole.course)
    assert "stage" not in said(replace(trace, pipelines=(parts[0], other, replace(other, batches=0))))


def test_nodes_that_are_made_anew_for_a_pass_are_left_out_of_the_stretch_that_begins_it() -> None:
    """Their totals begin at nothing again, those above them go on."""
    done = growing(0.0)
    passes = [reading(10, done), reading(20, done), reading(25, done, below=5), reading(40, done, below=5)]
    rows = [(10.0 * i, one) for i, one in enumerate(passes)]
    pipe = iterator_counters.merge_iterators(PLAN, [(passes[:2], None)], keras=False)
    found = recorded_pipelines.counter_history(pipe, [IteratorReadings(0.0, rows)])
    assert found is not None
    assert found.batches.tolist() == [10, 5, 15]
    by_name = dict(zip([n.name for n in pipe.nodes], np.isfinite(found.ms).tolist(), strict=True))
    assert by_name == {
        "TensorSlice": [True, False, True], "Map": [True, False, True], "Batch": [True, True, True],
    }  # fmt: skip
