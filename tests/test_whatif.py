"""The replay holds its sums whatever the trace: property tests over drawn steps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from slowtrain.columns.input_pipeline import WrittenDataset
from slowtrain.model import Category
from slowtrain.pricing import price_remedies
from slowtrain.trace import Trace
from slowtrain.trace.signals.device.op_work import PYTHON_COLD_SHARE
from slowtrain.whatif import Drop, Skip, Stretch, Supply, replay_remedies

from .drawn_trace import parse_drawing

LETTERS = {"i": "input", "d": "device", "p": "python", "r": "d2h", ".": None}
steps = st.lists(st.text(alphabet="".join(LETTERS), min_size=1, max_size=12), min_size=1, max_size=6)
drops = st.builds(
    lambda category, ms: Drop({category: ms}), st.sampled_from([Category.PYTHON, Category.READBACK, Category.DEVICE]),
    st.floats(0, 20),
)  # fmt: skip
remedies = st.lists(
    st.one_of(
        drops,
        st.builds(Supply, st.floats(0, 1), st.booleans()),
        st.builds(Skip, st.floats(0, 1000)),
        st.builds(Stretch, st.floats(0.01, 1), st.floats(0.1, 50)),
    ),
    max_size=4,
)


def drawing(turns: list[str]) -> str:
    """One row a category; a step's marks alternate so that neighbours are told apart."""
    rows = {"step": " ".join(str(i % 2 + 1) * len(turn) for i, turn in enumerate(turns))}
    for letter, lane in LETTERS.items():
        if lane:
            rows[lane] = " ".join("".join("x" if c == letter else "." for c in turn) for turn in turns)
    return "\n".join(f"{lane} {marks}" for lane, marks in rows.items())


@given(steps)
def test_without_remedies_nothing_changes(turns: list[str]) -> None:
    trace = parse_drawing(drawing(turns))
    after = replay_remedies(trace, [])
    assert after.step_ms == pytest.approx(trace.step_ms)
    assert after.run_ms == pytest.approx(trace.run_ms)


@given(steps, remedies)
def test_a_replay_never_lengthens_and_never_vanishes(
    turns: list[str], several: list[Drop | Supply | Skip | Stretch]
) -> None:
    trace = parse_drawing(drawing(turns))
    for scope in ("step", "run"):
        saving = price_remedies(trace, several, scope)
        assert 0 <= saving.after_ms <= saving.before_ms + 1e-9
        assert 1 <= saving.low <= saving.high + 1e-9
        assert math.isfinite(saving.high)
        assert saving.low - 1e-9 <= saving.speedup


@given(steps, remedies)
def test_together_saves_at_least_the_best_and_at_most_the_sum(
    turns: list[str], several: list[Drop | Supply | Skip | Stretch]
) -> None:
    trace = parse_drawing(drawing(turns))
    alone = [price_remedies(trace, [r], "run").ms for r in several]
    together = price_remedies(trace, several, "run").ms
    assert together <= sum(alone) + 1e-6 * max(trace.run_ms, 1)
    assert together >= max(alone, default=0.0) - 1e-6 * max(trace.run_ms, 1)


def test_two_causes_of_the_same_moment_are_paid_once() -> None:
    trace = parse_drawing("step 1111111111\npython pppp......\ndevice ....kkkkkk")
    both = [Drop({Category.PYTHON: 4.0}), Drop({Category.PYTHON: 3.0})]
    assert price_remedies(trace, both, "step").ms == pytest.approx(price_remedies(trace, both[:1], "step").ms)
    assert price_remedies(trace, both, "step").ms >= 4.0


def test_what_stays_of_a_step_finds_its_caches_warm_on_a_processor_only() -> None:
    drawing = "step 1111111111\npython pppp......\ndevice ....kkkkkk"
    assert price_remedies(parse_drawing(drawing), [Drop({Category.PYTHON: 4.0})], "step").after_ms < 6.0
    assert price_remedies(parse_drawing(drawing), [Drop({Category.DEVICE: 4.0})], "step").after_ms == pytest.approx(6.0)
    elsewhere = parse_drawing(f'{drawing}\n@fact devices=[{{"kind":"GPU"}}]')
    assert price_remedies(elsewhere, [Drop({Category.PYTHON: 4.0})], "step").after_ms == pytest.approx(6.0)


def test_what_is_made_beside_the_step_costs_only_what_exceeds_it() -> None:
    trace = parse_drawing("step 1111111111\ninput iiii......\ndevice ....kkkkkk")
    assert price_remedies(trace, [Supply(overlapped=True)], "step").after_ms == pytest.approx(6.0)
    slow = parse_drawing("step 1111111111\ninput iiiiii....\ndevice ......kkkk")
    assert price_remedies(slow, [Supply(overlapped=True)], "step").after_ms == pytest.approx(6.0)


def with_gaps(trace: Trace, gap_ms: float, quiet_ms: float) -> Trace:
    """The drawn trace with the mean time between two requests for a batch, and that of the quietest tenth."""
    assert trace.pipeline is not None
    return replace(trace, pipelines=(replace(trace.pipeline, gap_ms=gap_ms, quiet_ms=quiet_ms),))


def test_where_only_the_first_step_of_an_epoch_waits_the_others_ran_undisturbed() -> None:
    """Seven steps of eight are as long as they were once input takes no time: nothing worked beside them."""
    epoch = " ".join(["1" * 74, *(str(2 - i % 2) * 4 for i in range(7))])
    input_ = " ".join(["i" * 70 + "....", *["...."] * 7])
    device = " ".join(["." * 70 + "dddd", *["dddd"] * 7])
    rows = f"step {epoch}\ninput {input_}\ndevice {device}\n@fact step_cpu_ms=2 cpu_ms_per_step=14"
    pipe = "@pipeline Slices ms=0.1 > ParallelMapV2 ms=12 parallelism=2 line=12 > Prefetch"
    trace = with_gaps(parse_drawing(f"{rows}\n{pipe}"), 4, 2)
    assert price_remedies(trace, [Supply(factor=0.0, work=0.0)], "step").after_ms == pytest.approx(4.0, rel=0.01)


def test_nor_where_the_others_wait_for_a_twentieth_and_most_was_made_before_them() -> None:
    """An epoch's first step waits until a shuffle buffer is full; the rest of a step takes what it took."""
    epoch = " ".join(["1" * 370, *(str(2 - i % 2) * 20 for i in range(7))])
    input_ = " ".join(["i" * 350 + "." * 20, *["i" + "." * 19] * 7])
    device = " ".join(["." * 350 + "d" * 20, *["." + "d" * 19] * 7])
    rows = f"step {epoch}\ninput {input_}\ndevice {device}\n@fact step_cpu_ms=10 cpu_ms_per_step=100 usable_cores=2"
    pipe = "@pipeline Slices ms=0.1 > ParallelMapV2 ms=88 parallelism=2 line=12 > Prefetch"
    after = price_remedies(
        with_gaps(parse_drawing(f"{rows}\n{pipe}"), 20, 10), [Supply(factor=0.0, work=0.0)], "step"
    ).after_ms
    assert after == pytest.approx((20 + 7 * 19) / 8, rel=0.01)


def test_a_step_beside_which_input_is_still_read_does_not_compute_alone() -> None:
    """The quietest steps take half as long; their threads compute for three quarters of the mean."""
    rows = "step 1111111111\ninput iiiiii....\ndevice ......kkkk\n@fact step_cpu_ms=3 cpu_ms_per_step=20 usable_cores=2"
    pipe = "@pipeline Slices ms=0.1 > ParallelMapV2 ms=12 parallelism=2 line=12 > Prefetch"
    trace = with_gaps(parse_drawing(f"{rows}\n{pipe}"), 4, 2)
    for reads, after_ms in ((False, 2.0), (True, 3.0)):
        supply = Supply(factor=0.0, work=0.0, reads=reads)
        assert price_remedies(trace, [supply], "step").after_ms == pytest.approx(after_ms, rel=0.01)


@given(
    st.integers(0, 6), st.floats(0.05, 12), st.floats(0.1, 20), st.floats(0.1, 30), st.floats(0, 1), st.booleans()
)  # fmt: skip
def test_a_step_gains_no_more_than_its_wait_and_what_its_input_takes(
    wait: int, made: float, own: float, used: float, work: float, lock: bool
) -> None:
    """Whatever its threads wait for cores: others on the machine may have these, and go on to."""
    rows = f"step {'1' * 10}\ninput {'i' * wait}{'.' * (10 - wait)}\ndevice {'.' * wait}{'k' * (10 - wait)}"
    facts = f"@fact step_cpu_ms={own} cpu_ms_per_step={used} usable_cores=2\n@producer samples ms={made} line=9 hot=11"
    trace = parse_drawing(f"{rows}\n{facts}\n@pipeline Generator ms={made} line=20 > Prefetch buffer=2")
    assert trace.pipeline is not None
    cured = trace.pipeline.with_nodes(replace(trace.pipeline.nodes[0], ms=made * work))
    most = 10 / (10 - wait - made) if wait + made < 10 else math.inf
    for supply in (Supply(work, work=work, lock=lock), Supply(pipeline=cured, lock=lock)):
        assert price_remedies(trace, [supply], "step").speedup <= most * (1 + 1e-9)


def test_a_producer_that_takes_little_is_not_blamed_for_a_crowded_machine() -> None:
    """Of ten ms the step's own threads compute for three: others have the cores."""
    rows = "step 1111111111\ndevice kkkkkkkkkk\n@fact step_cpu_ms=3 cpu_ms_per_step=5 usable_cores=2"
    pipe = "@pipeline Generator ms=0.4 line=20 > FlatMap ms=0.1 > Prefetch\n@producer samples ms=0.4 line=9 hot=11"
    gone = [Supply(factor=0.0, work=0.0, lock=True)]
    assert price_remedies(parse_drawing(f"{rows}\n{pipe}"), gone, "step").after_ms == pytest.approx(9.5)
    assert price_remedies(parse_drawing(f"{rows}\n{pipe.replace('0.4', '9')}"), gone, "step").after_ms < 4.0


def test_the_threads_that_ops_are_split_over_count_as_the_steps_own() -> None:
    """Named executors took 2 ms; what neither they nor the nodes that make input took was ops on the other threads."""
    ops = '@kernels step=10 busy=4 ms=4 count=2 types={"MatMul":[4,2]}'
    rows = f"step 1111111111\ninput iiiiii....\ndevice ......kkkk\n{ops}\n@fact step_cpu_ms=2 usable_cores=2"
    pipe = "@pipeline Slices ms=0.1 > ParallelMapV2 ms=8 parallelism=1 line=12 > Prefetch"
    busy = price_remedies(
        parse_drawing(f"{rows} cpu_ms_per_step=17\n{pipe}"), [Supply(factor=0.0, work=0.0)], "step"
    ).after_ms
    alone = price_remedies(
        parse_drawing(f"{rows} cpu_ms_per_step=10\n{pipe}"), [Supply(factor=0.0, work=0.0)], "step"
    ).after_ms
    assert busy == pytest.approx(4.0)
    assert alone == pytest.approx(2.0)


def test_without_the_interpreters_lock_the_rest_of_a_step_is_shorter_on_a_processor() -> None:
    rows = "step 1111111111\ninput iiiiii....\ndevice ......kkkk\n@fact step_cpu_ms=4 cpu_ms_per_step=14 usable_cores=2"
    pipe = "@pipeline Generator ms=9 elements=64 line=20 > FlatMap ms=0.1 > Batch ms=0.1 > Prefetch"
    made = "@producer samples ms=9 calls=64 line=9 hot=11"
    gone = [Supply(factor=0.0, work=0.0)]
    assert price_remedies(parse_drawing(f"{rows}\n{pipe}"), gone, "step").after_ms == pytest.approx(4.0)
    assert price_remedies(parse_drawing(f"{rows}\n{pipe}\n{made}"), gone, "step").after_ms == pytest.approx(
        4.0
    )  # nobody held it up
    held = rows.replace("step_cpu_ms=4", "step_cpu_ms=3")
    assert price_remedies(parse_drawing(f"{held}\n{pipe}"), gone, "step").after_ms == pytest.approx(3.0)
    assert price_remedies(parse_drawing(f"{held}\n{pipe}\n{made}"), gone, "step").after_ms == pytest.approx(2.8)
    some = [Supply(factor=0.5, work=0.5)]
    same = [
        price_remedies(parse_drawing(f"{rows}\n{text}"), some, "step").after_ms for text in (pipe, f"{pipe}\n{made}")
    ]
    assert same[0] == pytest.approx(same[1])


@pytest.mark.parametrize(("workers", "shorter"), [(1, False), (2, True)])
def test_threads_of_a_pydataset_hold_the_step_up_though_no_node_works_ahead(workers: int, shorter: bool) -> None:
    """Two threads make batches in Python, which takes the lock from the step; one worker is the step's own thread."""
    trace = parse_drawing(f"""
        step     1111111111
        input    i.........
        dispatch .ddddddd..
        device   ........kk
        @event loop name=fit data={{"workers": {workers}, "data": {{}}}}
        @fact cpu_ms_per_step=12 step_cpu_ms=3 usable_cores=2
        @producer Parcels ms=14 calls=2 line=9 hot=11
        @pipeline Slices ms=0 > FlatMap ms=14
    """)
    assert (replay_remedies(trace, [Supply(0.05, work=0.05)]).step_ms < 0.6 * trace.step_ms) is shorter


def test_what_the_processor_took_bounds_a_step_only_while_enough_of_the_input_stays() -> None:
    rows = "step 1111111111\ninput iiiiii....\ndevice ......kkkk\n@fact cpu_ms_per_step=19 usable_cores=2"
    pipe = "@pipeline Slices ms=0.1 > ParallelMapV2 ms=9 parallelism=2 line=12 > Prefetch"
    trace = parse_drawing(f"{rows}\n{pipe}")
    assert price_remedies(trace, [Supply(factor=0.0, work=0.2)], "step").after_ms == pytest.approx(4.0)
    assert price_remedies(trace, [Supply(factor=0.0, work=0.5)], "step").after_ms > 5.0


def test_profiler_windows_are_no_part_of_the_run_that_a_cure_shortens() -> None:
    trace = parse_drawing("step 1111111111\ndevice kkkkkkkkkk\n@phase window=300 preparation=400")
    saving = price_remedies(trace, [Skip(400.0)], "run")
    assert saving.before_ms == pytest.approx(trace.run_ms - 300.0)
    assert saving.ms == pytest.approx(400.0)


def test_the_recorders_start_is_no_part_of_the_run_that_a_cure_shortens() -> None:
    trace = parse_drawing("step 1111111111\ndevice kkkkkkkkkk\n@phase preparation=400\n@fact own_ms=60")
    saving = price_remedies(trace, [Skip(400.0)], "run")
    assert saving.before_ms == pytest.approx(trace.run_ms - 60.0)
    assert saving.ms == pytest.approx(400.0)


@pytest.mark.parametrize("damaged", ['"long"', "-5", "NaN", "1e12", "[1]"])
def test_a_start_that_cannot_be_is_none(damaged: str) -> None:
    trace = parse_drawing(f"step 1111111111\ndevice kkkkkkkkkk\n@phase preparation=400\n@fact own_ms={damaged}")
    assert price_remedies(trace, [Skip(400.0)], "run").before_ms == pytest.approx(trace.run_ms)


def test_filling_cold_caches_takes_as_long_for_a_long_step_as_for_a_short_one() -> None:
    short = parse_drawing("step 1111111111\ncompile cccccccc..\ndevice ........kk")
    long = parse_drawing(f"step {'1' * 48}\ncompile {'c' * 8}{'.' * 40}\ndevice {'.' * 8}{'k' * 40}")
    gone = [Drop({Category.COMPILE: 8.0})]
    assert price_remedies(short, gone, "step").after_ms == pytest.approx(2.0 - 0.8 * 1.0)
    assert price_remedies(long, gone, "step").after_ms == pytest.approx(40.0 - 8 / 48 * 1.0)


def test_python_of_the_script_slows_a_long_step_throughout() -> None:
    long = parse_drawing(f"step {'1' * 40}\npython {'p' * 20}{'.' * 20}\ndevice {'.' * 20}{'k' * 20}")
    saved = price_remedies(long, [Drop({Category.PYTHON: 20.0})], "step")
    assert saved.after_ms == pytest.approx(20.0 * (1 - 0.5 * PYTHON_COLD_SHARE))


def test_fewer_calls_leave_the_executors_queues_to_the_step() -> None:
    """A map and its batch that ran as one node make a call for each sample; the map of whole batches makes one."""
    rows = "step 1111111111\ninput iiiiii....\ndevice ......kkkk\n@fact step_cpu_ms=3 cpu_ms_per_step=14 usable_cores=2"
    pipe = "@pipeline Slices ms=0.001 elements=64 > MapAndBatch ms=9 elements=1 line=20 > Prefetch"
    trace = parse_drawing(f"{rows}\n{pipe}")
    assert trace.pipeline is not None
    batched = replace(trace.pipeline, written=(WrittenDataset("BatchDataset", detail={"batch_size": 64}),))
    trace = replace(trace, pipelines=(batched,))
    assert trace.pipeline is not None
    node = next(n for n in trace.pipeline.nodes if n.family == "Map")
    each = replace(node, ms=0.01)
    whole = replace(each, name="ParallelMapV2")
    gains = [
        price_remedies(trace, [Supply(pipeline=trace.pipeline.with_nodes(n))], "step").after_ms for n in (each, whole)
    ]
    assert gains[0] == pytest.approx(4 * 0.75, rel=0.05)
    assert gains[1] == pytest.approx(4 * 0.7, rel=0.05)
