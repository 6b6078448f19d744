"""The input pipeline, functions and eager ops in profiles made by hand, an event at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from slowtrain.causes.host.retracing import Retracing
from slowtrain.model import Category, Signal
from slowtrain.profile import timeline
from slowtrain.profile.format import xplane
from slowtrain.profile.profile_steps import StepTimes
from slowtrain.profile.summaries import host_activity, tfdata_pipelines, tfdata_stages
from slowtrain.trace import Trace
from slowtrain.trace.loading import profile_trace

from .messages import entry, event, nested, number

MS = 1_000_000_000  # in ps
Span = tuple[str, float, float] | tuple[str, float, float, Mapping[str, Any]]
POOL, RESOURCE, NEXT = "tf_data_private_threadpool/1", "tf_data_iterator_resource/2", "tf_data_iterator_get_next/3"
ROOT, BATCH, MAP, SLICES = 1, 2, 3, 4  # numbers of iterators


def space(threads: Mapping[str, Sequence[Span]]) -> xplane.Space:
    """A profile of a host: spans are name, start and end in ms, and perhaps statistics."""
    names: dict[str, int] = {}
    stats: dict[str, int] = {}
    lines = []
    for i, (thread, spans) in enumerate(threads.items(), 1):
        events = []
        for text, start, end, *more in sorted(spans, key=lambda s: (s[1], -s[2])):
            known = [_stat(stats, k, v) for k, v in (more[0] if more else {}).items()]
            key = names.setdefault(text, len(names) + 1)
            events.append(event(key, round(start * MS), round((end - start) * MS), *known))
        lines.append(nested(3, number(1, i), nested(2, thread.encode()), number(3, 1), *events))
    tables = [entry(4, key, text) for text, key in names.items()] + [entry(5, key, s) for s, key in stats.items()]
    return xplane.parse_space(nested(1, nested(2, b"/host:CPU"), *lines, *tables))


def _stat(stats: dict[str, int], name: str, value: Any) -> bytes:
    key = number(1, stats.setdefault(name, len(stats) + 1))
    return nested(4, key, number(4, value) if isinstance(value, int) else nested(5, str(value).encode()))


def steps(*bounds: float) -> StepTimes:
    edges = np.array(bounds)
    return StepTimes(edges[:-1], edges[1:], "steps")


def it(path: str, start: float, end: float, number_: int, parent: int, **stats: Any) -> Span:
    return f"Iterator::{path}", start, end, {"id": number_, "parent_id": parent, **stats}


def sequential(ops: Sequence[tuple[str, float]] = (("DecodeJpeg:DecodeJpeg", 2.0),)) -> dict[str, list[Span]]:
    """Two batches of two elements: 10 ms each in a thread that works ahead, 4 ms an element in the map's function."""
    found: dict[str, list[Span]] = {NEXT: [], RESOURCE: [], POOL: []}
    for batch in (0, 1):
        at = 10.0 * batch
        found[NEXT].append(it("Root", at, at + 9, ROOT, 0, cpu_budget=4))
        found[NEXT].append(it("Root::Prefetch", at, at + 9, 10, ROOT, name="PrefetchDataset:3", buffer_limit=2))
        batched = it("Root::Prefetch::BatchV2", at, at + 9, BATCH, 10, batch_size=2, name="BatchDatasetV2:2")
        found[RESOURCE].append(batched)
        for element in (0, 1):
            begin, call = at + 4.5 * element, 100 + 2 * batch + element
            found[RESOURCE] += [
                it("Root::Prefetch::BatchV2::Map", begin, begin + 4.2, MAP, BATCH, name="MapDataset:1"),
                it("Root::Prefetch::BatchV2::Map::TensorSlice", begin, begin + 0.1, SLICES, MAP, shapes="[] [3,2]",
                   types="string float", name="TensorSliceDataset:0"),
                ("InstantiatedCapturedFunction::Run", begin + 0.1, begin + 4.2, {"id": call}),
            ]  # fmt: skip
            found[POOL].append(("ExecutorState::Process", begin + 0.2, begin + 4.2, {"id": call}))
            for i, (op, ms) in enumerate(ops):
                found[POOL].append((op, begin + 0.3 + 0.1 * i, begin + 0.3 + 0.1 * i + ms))
    return found


def parallel(width: int = 2) -> dict[str, list[Span]]:
    """One batch of two elements; their functions run in the pool at once, 8 ms each, half of it in Python."""
    return {
        NEXT: [
            it("Root", 0, 10, ROOT, 0),
            it("Root::MapAndBatch", 0, 10, MAP, ROOT, parallelism=width, batch_size=2,
               name="fused(ParallelMapDatasetV2:1,BatchDatasetV2:2)"),
        ],
        RESOURCE: [
            ("MapAndBatchProduce", 0, 0.5),
            it("Root::MapAndBatch::TensorSlice", 0, 0.1, SLICES, MAP),
            ("InstantiatedCapturedFunction::RunAsync", 0.2, 0.4, {"id": 7}),
            ("MapAndBatchProduce", 0.5, 1),
            it("Root::MapAndBatch::TensorSlice", 0.5, 0.6, SLICES, MAP),
            ("InstantiatedCapturedFunction::RunAsync", 0.7, 0.9, {"id": 8}),
        ],
        POOL: [("ExecutorState::Process", 1, 9, {"id": 7}), ("PyFunc:PyFunc", 1, 5)],
        "tf_data_private_threadpool/9": [("ExecutorState::Process", 1, 9, {"id": 8}), ("PyFunc:PyFunc", 1, 5)],
    }  # fmt: skip


# -- the graph


def test_paths_become_a_graph_with_the_names_that_were_written() -> None:
    (pipe,) = tfdata_pipelines.profile_pipelines(space(sequential()), (), steps(0, 10, 20))
    assert [n.name for n in pipe.nodes] == ["TensorSlice", "Map", "BatchV2", "Prefetch"]
    assert [n.inputs for n in pipe.nodes] == [(), (0,), (1,), (2,)]
    assert [w.op for w in pipe.written] == ["TensorSliceDataset", "MapDataset", "BatchDataset", "PrefetchDataset"]
    assert (pipe.batches, pipe.batch_size, pipe.cpu_budget) == (2, 2, 4.0)
    assert all(w.place is None for w in pipe.written)


def test_a_stage_has_its_own_time_and_its_elements_per_batch() -> None:
    (pipe,) = tfdata_pipelines.profile_pipelines(space(sequential()), (), steps(0, 10, 20))
    source, mapped, batched, prefetch = pipe.nodes
    assert (source.elements, mapped.elements, batched.elements) == (2, 2, 1)
    assert (source.ms, mapped.ms, batched.ms) == pytest.approx((0.2, 8.2, 0.6))
    assert prefetch.ms == 0, "it waits for its thread"
    assert prefetch.buffer_size == 2
    assert mapped.written is not None
    assert mapped.written.ops == {"DecodeJpeg": 1}


def test_functions_of_an_asynchronous_map_count_where_they_ran() -> None:
    (pipe,) = tfdata_pipelines.profile_pipelines(space(parallel()), (), steps(0, 10))
    _, mapped = pipe.nodes
    assert mapped.parallelism == 2
    assert mapped.ms == pytest.approx(16 + 0.8), "two functions, and what starting them takes"
    assert [w.op for w in pipe.written] == ["TensorSliceDataset", "ParallelMapDataset", "BatchDataset"]
    assert mapped.written is not None
    assert mapped.written.python


def test_python_of_two_threads_runs_one_at_a_time() -> None:
    pipes = tfdata_pipelines.profile_pipelines(space(parallel()), (), steps(0, 10))
    (producer,) = tfdata_pipelines.pipeline_producers(pipes)
    assert (producer.ms_per_step, producer.calls_per_step) == pytest.approx((4, 2))
    assert tfdata_pipelines.pipeline_busy_ms(pipes[0]) == pytest.approx(pipes[0].ms - 4), "one batch was made"


def test_a_function_that_was_not_seen_leaves_the_pipeline_without_times() -> None:
    threads = {name: spans for name, spans in parallel().items() if name in (NEXT, RESOURCE)}
    (pipe,) = tfdata_pipelines.profile_pipelines(space(threads), (), steps(0, 10))
    assert pipe.nodes == ()
    assert len(pipe.written) == 3


def test_shapes_give_an_elements_bytes_where_they_are_known() -> None:
    (pipe,) = tfdata_pipelines.profile_pipelines(space(sequential()), (), steps(0, 10, 20))
    first = pipe.written[0]
    assert first.detail["element"] == [{"shape": None, "bytes": 0}, {"shape": [3, 2], "bytes": 4}]
    assert first.element_bytes is None, "how long a text is, nothing tells"


def test_two_pipelines_of_one_shape_are_one_that_was_iterated_again() -> None:
    threads = sequential()
    again = [(t, a + 20, b + 20, {**s, "id": s["id"] + 50, "parent_id": s["parent_id"] + 50 * (s["parent_id"] > 0)})
             for t, a, b, s in (span for span in threads[NEXT] if len(span) == 4)]  # fmt: skip
    threads[NEXT] += again
    alone = tfdata_pipelines.profile_pipelines(space({NEXT: threads[NEXT]}), (), steps(0, 10, 20, 30, 40))
    assert [(p.batches, p.epochs) for p in alone] == [(4, 2)]


def test_a_devices_part_of_a_distributed_data_set_tells_nothing_of_what_makes_the_batches() -> None:
    copying = [it("Prefetch", 0, 9, 1, 0), it("Prefetch::Generator", 0, 8, 2, 1)]
    (alone,) = tfdata_pipelines.profile_pipelines(space({NEXT: copying}), (), steps(0, 10))
    assert alone.nodes
    op: Span = ("MultiDeviceIteratorGetNextFromShard:MultiDeviceIteratorGetNextFromShard", 0, 1)
    (told,) = tfdata_pipelines.profile_pipelines(space({NEXT: copying, "tf_Compute/1": [op]}), (), steps(0, 10))
    assert told.nodes == ()


def test_what_counts_elements_is_no_part_of_a_path() -> None:
    assert tfdata_stages.uncounted_path("Iterator::Root::FlatMap[31]::Generator") == "Root::FlatMap::Generator"
    assert (
        tfdata_stages.uncounted_path("Iterator::Root::ForeverRepeat[4]::Zip[1]::Map")
        == "Root::ForeverRepeat::Zip[1]::Map"
    )


def test_without_iterators_there_is_no_pipeline() -> None:
    assert tfdata_pipelines.profile_pipelines(space({"python": [("EagerExecute", 0, 1)]}), (), steps(0, 1)) == ()


@pytest.mark.parametrize("path", ["::".join(["Root", *["Map"] * 4000]), "Root::" + "x" * 100_000, "Root" + "::" * 300])
def test_paths_that_nobody_wrote_are_left_alone(path: str) -> None:
    threads = {**sequential(), RESOURCE: [it(path, 0, 1, 77, ROOT)]}
    found = tfdata_pipelines.profile_pipelines(space(threads), (), steps(0, 10, 20))
    assert all(len(p.nodes) <= tfdata_stages.MAX_PATH_STAGES for p in found)


# -- functions and eager ops


def call(at: float, *, traced: bool, count: int) -> list[Span]:
    says = "traced-nonXla" if traced else "notTraced-nonXla"
    run = at + (8 if traced else 1)
    return [
        ("step", at, run + 1, {"tf_function_call": says, "tracing_count": count}),
        ("EagerLocalExecute: __inference_step_1", run - 0.5, run + 1),
        ("FunctionRun", run, run + 0.9),
    ]


def retraced(times: int) -> Trace:
    spans = [s for i in range(times) for s in call(10.0 * i, traced=True, count=i + 3)]
    ops: list[Span] = [("dense/MatMul:MatMul", 10.0 * i + 8.1, 10.0 * i + 8.8) for i in range(times)]
    return profile_trace.build_profile_trace([space({"python": spans, "tf_Compute/1": ops})])


def test_calls_that_trace_are_events_with_their_count() -> None:
    trace = retraced(8)
    assert Signal.TRACES in trace.signals
    assert [(e.name, e.data["nth"]) for e in trace.events_of("trace")] == [("step", i + 3) for i in range(8)]
    assert len(trace.lane("function")) == 8
    assert trace.mean(Category.COMPILE) > 0.7 * trace.step_ms


def test_a_function_that_is_traced_in_every_step_is_told_without_its_arguments() -> None:
    trace, cause = retraced(8), Retracing()
    finding = cause.find(trace)
    assert finding is not None
    assert "does not hold its arguments" in cause.evidence(trace, finding).says
    assert Retracing().find(retraced(2)) is None


def test_the_first_trace_of_jax_in_a_profile_may_be_its_first_ever() -> None:
    spans: list[Span] = []
    for i in range(4):
        spans += [("PjitFunction(train_step)", 10.0 * i, 10.0 * i + 8), ("backend_compile", 10.0 * i + 1, 10.0 * i + 7)]
    whole = timeline.read_timeline([space({"python": spans})])
    found = host_activity.function_traces(whole.threads)
    assert found is not None
    assert [e.data["nth"] for e in found.events] == [1, 2, 3, 4]
    assert [n.text for n in found.names] == ["train_step"]


def eager_step(at: float, kinds: Sequence[str]) -> list[Span]:
    found: list[Span] = []
    for i, kind in enumerate(kinds):
        begin = at + 0.2 * i
        found += [(f"EagerLocalExecute: {kind}", begin, begin + 0.1), ("KernelAndDeviceFunc::Run", begin, begin + 0.05)]
    return found


@pytest.mark.parametrize(("kinds", "expected"), [
    (["MatMul"] * 12 + ["ReluGrad"], True),
    (["MatMul"] * 12, False),  # no gradient: a loop that predicts
    (["ReluGrad"] * 3, False),  # too few
])  # fmt: skip
def test_steps_run_eagerly_where_gradients_are_among_ops_from_python(kinds: list[str], expected: bool) -> None:
    spans = [s for i in range(5) for s in eager_step(10.0 * i, kinds)]
    whole = timeline.read_timeline([space({"python": spans})])
    assert host_activity.is_eager_step(whole.threads, steps(0, 10, 20, 30, 40, 50)) is expected


def test_eager_ops_compute_on_the_host_when_there_is_no_device() -> None:
    spans = [s for i in range(5) for s in eager_step(10.0 * i, ["MatMul"] * 12 + ["ReluGrad"])]
    trace = profile_trace.build_profile_trace([space({"python": spans})])
    assert trace.eager
    assert trace.kernels is not None
    assert trace.kernels.eager_ops == pytest.approx(13, abs=1)
    assert trace.mean(Category.DEVICE) == pytest.approx(13 * 0.05, abs=0.1)
    assert trace.mean(Category.DISPATCH) > trace.mean(Category.DEVICE), "short gaps between ops are on the way"


# -- Python that makes input


def test_the_users_frames_below_an_adapter_make_the_input() -> None:
    spans: list[Span] = []
    for i in range(3):
        at = 10.0 * i
        spans += [
            ("$trainer.py:256 iterator_step", at, at + 6),
            ("$builtins next", at + 0.1, at + 5.9),
            ("$py_dataset_adapter.py:257 _finite_generator", at + 0.2, at + 5.8),
            ("$train.py:12 __getitem__", at + 0.3, at + 5.3),
            ("$train.py:30 work", at + 0.4, at + 5.2),
            ("$py_dataset_adapter.py:225 _standardize_batch", at + 5.4, at + 5.6),
            ("PjitFunction(train_step)", at + 7, at + 9),
        ]
    whole = timeline.read_timeline([space({"python": spans})])
    (producer,) = host_activity.python_producers(whole.threads, steps(0, 10, 20, 30))
    assert (producer.qualname, str(producer.place)) == ("__getitem__", "train.py:12")
    assert (producer.ms_per_step, producer.calls_per_step) == pytest.approx((5, 1))


def test_the_largest_pool_tells_how_many_processors_there_are() -> None:
    pools: dict[str, list[Span]] = {f"tf_Compute/{i}": [("ExecutorState::Process", 0, 1)] for i in range(6)}
    pools["tf_data_iterator_resource/1"] = [("ExecutorState::Process", 0, 1)]
    assert host_activity.pool_cores(timeline.read_timeline([space(pools)]).threads) == 6
