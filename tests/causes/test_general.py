"""Reasons for the largest part of a step, or of a short run, that no specific cause explains."""

from __future__ import annotations

import pytest

from slowtrain.causes import general_input_wait
from slowtrain.columns.input_pipeline import Pipeline, WrittenDataset
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Diagnosis
from slowtrain.trace import Trace

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

COMPUTING = "step 1111111111\ndevice kkkkkkkk..\ndispatch ........dd\n@kernels step=10 busy=8 count=60"
# Worker processes of Keras: nothing is recorded in them, but that each step waits for its batch.
PROCESSES = """
    step    1111111111
    input   iiiiii....
    device  ......kkkk
    @missing python
    @fact sources={"train.py":"class D(keras.utils.PyDataset):\\n  def __getitem__(self, i):\\n    return load(i)\\n"}
    @event loop name=fit start=0 end=400 data={"workers":4,"processes":true,"site":["train.py",20]}
    """
# A py_function reads files; no core is at work meanwhile, and nobody counted the bytes.
LOADING = """
    step    1111111111
    input   iiiiii....
    device  ......kkkk
    @missing reads
    @fact cpu_ms_per_step=2 usable_cores=4
    @producer load ms=20 calls=32 line=9 hot=11
    @pipeline Slices ms=0.1 > ParallelMapV2 ms=20 elements=32 parallelism=4 line=20 detail={"ops":{"EagerPyFunc":1}}
    > Batch ms=0.1 line=20
    """
# Half is overhead, a quarter waits for rows that are gathered from arrays.
SLICES = """
    step     11111111
    input    ii......
    device   ......kk
    dispatch ..dddd..
    @steps source=fit line=20
    @event loop name=fit start=0 end=400 data={"site":["train.py",20],"data":{"shape":[1000,64]}}
    @fact cpu_ms_per_step=9 usable_cores=4
    @kernels step=8 busy=2 count=170 types={"MatMul":[1.5,6],"Relu":[0.5,2]}
    @pipeline Range ms=0.1 > ParallelMapV2 ms=1.9 elements=1 parallelism=4 > Prefetch
    """
CACHE = """
    step    1111111111
    input   iiiiiii...
    device  .......kkk
    @fact cpu_ms_per_step=14 usable_cores=2
    @pipeline epochs=5 > Slices ms=0.1 elements=16 detail={"cardinality":320} >
    ParallelMapV2 ms=18 elements=16 parallelism=2 line=12 detail={"cardinality":320} >
    MemoryCache ms=0.1 elements=16 line=13 detail={"cardinality":320} > TAKE > Batch ms=0.1 > Prefetch
    """.replace("\n    Para", " Para").replace("\n    Mem", " Mem")
TAKEN = 'FiniteTake elements=16 line=14 op=TakeDataset detail={"cardinality":200}'


def only(drawing: str) -> Diagnosis:
    (found,) = diagnose_trace(parse_drawing(drawing)).diagnoses
    return found


def lines(found: Diagnosis) -> list[int]:
    return [place.line for place in found.evidence.where]


def test_where_nearly_all_is_computing_nothing_more_is_told() -> None:
    assert not [d for d in diagnose_trace(parse_drawing(COMPUTING)).diagnoses if d.saving.speedup > 1]


def test_worker_processes_bound_what_can_be_gained() -> None:
    found = only(PROCESSES)
    assert found.cause == "input/python-input"
    assert "worker processes" in found.evidence.says
    assert lines(found) == [2, 20]
    assert found.saving.low == 1.0
    assert found.saving.high == pytest.approx(10 / 4), "no more than all of the wait"


def test_python_that_loads_files_while_cores_idle_is_named_with_its_lines() -> None:
    found = only(LOADING)
    assert found.cause == "input/python-input"
    assert "32 calls of load take 20 ms" in found.evidence.says
    assert lines(found)[0] == 11


def test_a_step_that_is_half_overhead_and_a_quarter_waiting() -> None:
    several = {d.cause: d for d in diagnose_trace(parse_drawing(SLICES)).diagnoses}
    start = several["host/launch-bound"]
    assert "170 operations" in start.evidence.says
    assert "MatMul computes longest, 1.5 ms in 6 calls" in start.evidence.says
    assert start.saving.high == pytest.approx(8 / 4)
    wait = several["input/starved-host"]
    assert "slowest stage is Map (added by Keras or TensorFlow): 1.9 ms" in wait.evidence.says
    assert lines(wait) == [20]


def test_a_part_that_a_specific_cause_explains_is_left_to_it() -> None:
    found = diagnose_trace(parse_drawing("step 1\ndispatch d\n@kernels step=1 busy=0.05 count=60"))
    titles = [d.title for d in found.diagnoses if d.cause == "host/launch-bound"]
    assert titles == ["Starting the step's operations takes longer than computing them"]


def test_a_cause_has_one_outcome_only() -> None:
    for drawing in (PROCESSES, LOADING, SLICES):
        found = diagnose_trace(parse_drawing(drawing))
        told = [d.cause for d in found.diagnoses]
        assert len(told) == len(set(told))
        assert not set(told) & (set(found.healthy) | {u.cause for u in found.unchecked})


def test_a_cache_that_take_cuts_short_is_never_read() -> None:
    found = {d.cause: d for d in diagnose_trace(parse_drawing(CACHE.replace("TAKE", TAKEN))).diagnoses}[
        "input/uncached-input"
    ]
    assert "take() behind it stops each pass before its end" in found.evidence.says
    assert lines(found) == [13]
    assert found.prescriptions[0].says == "put take() in front of cache()"


def test_a_take_of_everything_lets_the_cache_fill() -> None:
    whole = TAKEN.replace("200", "320")
    assert "never fills" not in str(diagnose_trace(parse_drawing(CACHE.replace("TAKE", whole))).diagnoses)


@pytest.mark.parametrize("length", [-2, 160])
def test_a_cache_behind_a_generator_without_end_is_never_read(length: int) -> None:
    drawing = f"""
        step    1111111111
        input   iiiiiii...
        device  .......kkk
        @fact cpu_ms_per_step=10
        @event loop name=fit start=0 end=400 data={{"epochs":8,"steps_per_epoch":5,"site":["train.py",20]}}
        @pipeline epochs=1 > Generator ms=8 elements=16 line=9 > MemoryCache ms=0.1 elements=16 line=9
        & detail={{"cardinality":{length}}} > Prefetch
        """
    told = [d for d in diagnose_trace(parse_drawing(drawing)).diagnoses if "never fills" in d.evidence.says]
    assert [d.cause for d in told] == (["input/uncached-input"] if length == -2 else [])


START = """
    step    11111
    @once
    @steps training=true
    @missing kernels
    @phase import=3000 compile=30000 build=1000
    @event trace name=train start=0 end=30000 data={"training":true,"trace_ns":24000000000,"site":["train.py",5],
    & "graph":{"ops":36000}}
    """


def test_a_large_model_of_a_few_steps_is_told_by_its_start() -> None:
    found = only(START)
    assert found.cause == "startup/slow-startup"
    assert found.saving.scope == "run"
    assert "tracing, compiling and first executions 30 s, imports 3 s, building the model 1 s" in found.evidence.says
    assert "24 s of it tracing, 36,000 operations" in found.evidence.says
    assert lines(found) == [5]


def test_an_ordinary_start_of_a_few_steps_says_nothing() -> None:
    assert not diagnose_trace(parse_drawing(START.replace("30000", "900").replace("build=1000", "build=10"))).diagnoses


def test_training_steps_written_out_in_one_graph() -> None:
    text = (
        "import tensorflow as tf\\n@tf.function\\ndef fit(x):\\n  for i in range(240):\\n"
        "    with tf.GradientTape() as tape:\\n      loss = tf.reduce_sum(w * x[i])\\n"
        "    w.assign_sub(tape.gradient(loss, w))\\nfit(x)\\n"
    )
    found = only(f'{START.replace("step    11111", "")}\n@fact sources={{"train.py":"{text}"}}')
    assert "the loop in line 4 unrolls 240 training steps into one graph" in found.evidence.says
    assert lines(found) == [4]


@pytest.mark.parametrize(
    ("last", "advice"), [("BatchDataset", "end the data set with"), ("PrefetchDataset", "train for")]
)
def test_a_prefetch_is_not_advised_where_there_is_one(last: str, advice: str) -> None:
    pipe = Pipeline(written=(WrittenDataset("MapDataset"), WrittenDataset(last)))
    found = general_input_wait.find_awaited_input(Trace(pipelines=(pipe,)))
    assert found.says == "what makes it was not measured"
    assert found.prescriptions[0].says.startswith(advice)
