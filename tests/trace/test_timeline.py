"""Steps, idle reasons and sums of a profile, on timelines made by hand and on the real profiles at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from slowtrain.columns import intervals
from slowtrain.profile import host_reasons, profile_steps, timeline
from slowtrain.profile.device_activity import D2H, H2D, KERNEL, Activities
from slowtrain.profile.format import xplane
from slowtrain.profile.host_threads import HostThread
from slowtrain.profile.profile_steps import StepTimes
from slowtrain.profile.summaries import idle_reasons, step_division, window_ops
from slowtrain.profile.timeline import ProfiledDevice, Timeline
from slowtrain.trace.loading import recording_windows

from .messages import entry, event, nested, number

Span = tuple[float, float]


def floats(values: list[float]) -> np.ndarray:
    return np.array(values, dtype=float)


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def device(*spans: tuple[float, float, str, int], kinds: dict[str, int] | None = None) -> ProfiledDevice:
    """Activities ``(start, end, name, correlation)`` on one stream."""
    texts = tuple(dict.fromkeys(name for _, _, name, _ in spans))
    kind = [(kinds or {}).get(name, KERNEL) for _, _, name, _ in spans]
    code = [texts.index(name) for _, _, name, _ in spans]
    none = ints([-1] * len(spans))
    acts = Activities(
        floats([s[0] for s in spans]), floats([s[1] for s in spans]), ints(kind), ints(code), none,
        ints([0] * len(spans)), ints([s[3] for s in spans]), np.zeros(len(spans)), texts,
    )  # fmt: skip
    return ProfiledDevice("/device:GPU:0", "GPU", "", {}, acts)


def thread(
    label: str, *spans: tuple[float, float, str], launches: tuple[tuple[float, float, int], ...] = ()
) -> HostThread:
    """Spans ``(start, end, name)``, whose reasons the table of names gives; launches ``(start, end, correlation)``."""
    spans = tuple(sorted(spans))
    texts = tuple(dict.fromkeys(name for _, _, name in spans)) or ("",)
    reasons = [host_reasons.host_reason(name) for _, _, name in spans]
    return HostThread(
        label, "", floats([s[0] for s in spans]), floats([s[1] for s in spans]),
        ints([host_reasons.REASONS.index(r) if r else -1 for r in reasons]),
        ints([texts.index(s[2]) for s in spans]), texts,
        (floats([c[0] for c in launches]), floats([c[1] for c in launches]), ints([c[2] for c in launches]),
         ints([0] * len(launches))),
    )  # fmt: skip


def waits(gpu: ProfiledDevice, *threads: HostThread, until: float = 10.0) -> dict[str, float]:
    """Idle ms by reason between the device's activities, from 0 to ``until``."""
    whole = (floats([0.0]), floats([until]))
    gaps = intervals.subtract(whole, gpu.activities.busy(KERNEL, H2D, D2H))
    found = idle_reasons.device_idle_reasons(Timeline((gpu,), threads, 0.0, until), gpu, gaps)
    return {reason: round(found.ms(reason), 6) for reason in found.reasons}


# ---- why a device waits ------------------------------------------------------------------------------------------


def test_a_kernel_that_was_launched_in_time_waited_in_the_queue() -> None:
    gpu = device((0, 4, "a", 1), (4.04, 10, "b", 2))
    assert waits(gpu, thread("python/1", launches=((0, 0.1, 1), (0.2, 0.3, 2)))) == {"queue": 0.04}


def test_a_launched_kernel_that_waits_on_an_empty_device_waits_for_another_process() -> None:
    gpu = device((0, 4, "a", 1), (6, 7, "b", 2), (8, 10, "c", 3))
    launches = ((0, 0.1, 1), (4.5, 5.0, 2), (6.1, 6.2, 3))
    assert waits(gpu, thread("python/1", launches=launches)) == {
        "other-process": 1.0, "dispatch": 0.5, "unattributed": 0.5, "queue": 1.0,
    }  # fmt: skip


def test_launches_of_a_command_buffer_are_told_apart() -> None:
    """The profiler switches command buffers off: outside it the kernels in one are launched at once."""
    gpu = device((0, 1, "a", 1), (3, 4, "b", 2), (6, 10, "c", 3))
    off = (0.5, 4.5, "WARNING: CommandBuffer disabled when profiling")
    executor = thread(
        "tf_Compute/1", (0, 7, "ExecutorState::Process"), off, launches=((0, 0.1, 1), (2.9, 2.99, 2), (5.9, 5.99, 3))
    )
    assert waits(gpu, executor) == {"command-buffer": 2.5, "dispatch": 1.5}


def test_the_launching_thread_tells_before_the_others() -> None:
    """Another thread fetches the next batch meanwhile: the gap is the dispatch of the thread that launches."""
    gpu = device((0, 4, "a", 1), (8, 10, "b", 2))
    launcher = thread("tf_Compute/1", (0, 9, "ExecutorState::Process"), launches=((0, 0.1, 1), (7, 7.98, 2)))
    other = thread("tf_data_iterator_get_next/2", (3, 9, "IteratorGetNextOp::DoCompute"))
    assert waits(gpu, launcher, other) == {"dispatch": 4.0}


def test_an_idle_launching_thread_waits_for_the_iterator() -> None:
    gpu = device((0, 2, "a", 1), (8, 10, "b", 2))
    launcher = thread("tf_Compute/1", (0, 1, "ExecutorState::Process"), launches=((0, 0.1, 1), (7, 7.98, 2)))
    fetching = thread("tf_data_iterator_get_next/2", (1.5, 7, "IteratorGetNextOp::DoCompute"))
    making = thread("tf_data_iterator_resource/3", (0, 10, "Iterator::Root::Prefetch::Map"))
    assert waits(gpu, launcher, fetching, making) == {"dispatch": 1.0, "input": 5.0}


def test_making_input_ahead_is_no_wait() -> None:
    gpu = device((0, 2, "a", 1), (8, 10, "b", 2))
    launcher = thread("tf_Compute/1", launches=((0, 0.1, 1), (7, 7.98, 2)))
    making = thread("tf_data_iterator_resource/3", (0, 10, "Iterator::Root::Prefetch::Map"))
    assert waits(gpu, launcher, making) == {"dispatch": 1.0, "unattributed": 5.0}


def test_python_is_what_lies_between_the_main_threads_calls() -> None:
    gpu = device((0, 2, "a", 1), (8, 10, "b", 2))
    main = thread(
        "python/1", (0, 1, "EagerLocalExecute: __inference_f_1"), (6.5, 8, "EagerLocalExecute: __inference_f_1"),
        launches=((0, 0.1, 1), (7, 7.98, 2)),
    )  # fmt: skip
    assert waits(gpu, main) == {"dispatch": 1.5, "python": 4.5}


def test_a_thread_that_runs_python_waits_for_no_other() -> None:
    """Keras hands a step's logs to a thread of its own, which reads them: nothing waits for that one."""
    gpu = device((0, 2, "a", 1), (8, 10, "b", 2))
    main = thread("python/1", (0, 8, "$trainer.py:256 iterator_step"), launches=((0, 0.1, 1), (7, 7.98, 2)))
    reading = thread("python/2", (2, 6, "np.asarray(jax.Array)"))
    assert waits(gpu, main, reading) == {"dispatch": 1.0, "python": 5.0}
    waiting = thread(
        "python/1", (0, 8, "$fit.py:3 fit"), (2, 6, "$threading.py:355 wait"), launches=((0, 0.1, 1), (7, 7.98, 2))
    )
    assert waits(gpu, waiting, reading) == {"dispatch": 1.0, "python": 1.0, "sync": 4.0}


def test_a_copy_ends_no_gap_while_the_next_kernel_is_not_even_launched() -> None:
    """A value read back by another thread: what the device waits for is the thread that launches."""
    gpu = device((0, 2, "a", 1), (5, 5.2, "MemcpyD2H", 2), (8, 10, "b", 3), kinds={"MemcpyD2H": D2H})
    main = thread("python/1", (0, 8, "$trainer.py:256 iterator_step"), launches=((0, 0.1, 1), (7, 7.98, 3)))
    reading = thread("python/2", (2, 6, "np.asarray(jax.Array)"), launches=((4.9, 5.0, 2),))
    assert waits(gpu, main, reading) == {"dispatch": 1.0, "python": 4.8}


def test_a_call_that_waits_for_its_arguments_waits_for_the_copy() -> None:
    """The calling thread is inside one span; the pool copies meanwhile. Once kernels are launched it is dispatch."""
    call, launching = "[0] PjRtStreamExecutorRawLoadedExecutable::Execute", "[0] GpuExecutable::ExecuteThunks"
    gpu = device((0, 2, "a", 1), (8, 10, "b", 2))
    main = thread("python/1", (1, 9, call), (6, 9, launching), launches=((0, 0.1, 1), (7, 7.98, 2)))
    pool = thread("pjrt_async_work_runner/2", (1, 7, "H2D Dispatch"))
    assert waits(gpu, main, pool) == {"h2d": 4.0, "dispatch": 2.0}
    assert waits(gpu, main, thread("another/2", (1, 7, "H2D Dispatch"))) == {"dispatch": 6.0}


def test_a_program_that_calls_python_waits_for_what_the_host_computes() -> None:
    gpu = device((0, 2, "a", 1), (8, 10, "b", 2))
    spans = ((1, 9, "PjitFunction(f)"), (2, 7, "pure_callback.1"), (2, 3, "MemcpyD2H"))
    main = thread("python/1", *spans, launches=((0, 0.1, 1), (7, 7.98, 2)))
    told = np.where(
        main.name == main.texts.index("pure_callback.1"),
        host_reasons.REASONS.index(host_reasons.HOST_OP_REASON),
        main.reason,
    )
    assert waits(gpu, replace(main, reason=told)) == {"host-op": 5.0, "dispatch": 1.0}


def test_python_frames_of_which_only_the_end_was_seen_are_no_reason() -> None:
    """The tracer lets them begin with itself, all at once; a generator asked again leaves one in every step."""
    rows = [("$builtins next", 0, 30), ("$builtins next", 0, 20), ("$fit.py:3 fit", 5, 6), ("$builtins next", 7, 9)]
    tables = b"".join(entry(4, i + 1, text) for i, (text, _, _) in enumerate(rows))
    events = [event(i + 1, int(a * 1e9), int((b - a) * 1e9)) for i, (_, a, b) in enumerate(rows)]
    line = nested(3, number(1, 7), nested(2, b"python"), *events)
    [found] = timeline.read_timeline([xplane.parse_space(nested(1, nested(2, b"/host:CPU"), line, tables))]).threads
    assert [t.tolist() for t in found.of("input")] == [[7.0], [9.0]]


def test_a_pool_that_awaits_a_buffer_is_a_wait_where_the_script_is_in_nothing_else() -> None:
    """As in a real attention on an MI300X: the call of block_until_ready itself has no frame."""
    gpu = device((0, 2, "a", 1), (8, 10, "b", 2))
    main = thread("python/1", (0, 3, "$net.py:7 loss"), (7, 8, "$net.py:7 loss"), launches=((0, 0.1, 1), (7, 7.98, 2)))
    pool = thread("tf_pjrt_thread_pool/2", (1, 7, "BufferSequencingEvent::Execute"))
    assert waits(gpu, main, pool) == {"dispatch": 1.0, "python": 1.0, "sync": 4.0}


def test_a_frame_that_only_touches_a_gap_does_not_say_what_it_was() -> None:
    gpu = device((0, 2, "a", 0), (8, 10, "b", 0))
    main = thread("python/1", (0, 2.01, "$net.py:7 loss"), (7.9, 8, "$net.py:7 loss"))
    whole = Timeline((gpu,), (main,), 0.0, 10.0)
    found = idle_reasons.device_idle_reasons(whole, gpu, (floats([2.0]), floats([8.0])))
    (gap,) = idle_reasons.longest_gaps(whole, gpu, found, 0.0)
    assert (gap.reason, gap.detail) == ("python", "")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("EagerLocalExecute: MatMul", "eager"),
        ("cudaStreamSynchronize", "sync"),
        ("$array.py:631 _value", "sync"),
        ("MemcpyH2D", "h2d"),
        ("cuMemcpyDtoHAsync_v2", "d2h"),
        ("cudaMalloc", "allocation"),
        ("$callback.py:12 on_batch_end", "callback"),
        ("backend_compile", "compile"),
        ("PjitFunction(train_step)", "dispatch"),
        ("$train.py:40 loss_of", "python"),
    ],
)
def test_each_reason_by_its_span(name: str, reason: str) -> None:
    gpu = device((0, 2, "a", 1), (8, 10, "b", 2))
    main = thread("python/1", (0, 7, name), launches=((0, 0.1, 1), (7, 7.98, 2)))
    assert waits(gpu, main).get(reason, 0.0) >= 5.0


def op_beside_a_gpu(op: str, ms: float, launches: bool = False) -> dict[str, float]:
    """A GPU that idles from 1 to 3 ms while an executor's thread runs ``op`` for ``ms``, from 1 ms on."""
    stats = tuple(entry(5, i + 1, name) for i, name in enumerate(("correlation_id", "kernel_details")))

    def call(at_ms: float, number_: int) -> bytes:
        return event(2, int(at_ms * 1e9), 10_000_000, nested(4, number(1, 1), number(4, number_)))

    spans = [event(3, 0, 4_000_000_000), event(1, 1_000_000_000, int(ms * 1e9)), call(0.0, 1), call(2.98, 2)]
    spans += [call(1.01, 3)] if launches else []
    table = [entry(4, 1, op), entry(4, 2, "cuLaunchKernel"), entry(4, 3, "ExecutorState::Process")]
    line = nested(3, number(1, 7), nested(2, b"tf_Compute/7"), *spans)
    host = nested(1, nested(2, b"/host:CPU"), line, *table, *stats)
    kernels_ = [event(1, 0, 1_000_000_000, nested(4, number(1, 1), number(4, 1))),
                event(1, 3_000_000_000, 1_000_000_000, nested(4, number(1, 1), number(4, 2)))]  # fmt: skip
    stream = nested(3, number(1, 13), nested(2, b"Stream #13(Kernel)"), *kernels_)
    gpu = nested(1, nested(2, b"/device:GPU:0"), stream, entry(4, 1, "gemm"), *stats)
    whole = timeline.read_timeline([xplane.parse_space(host + gpu)])
    gaps = (floats([1.0]), floats([3.0]))
    found = idle_reasons.device_idle_reasons(whole, whole.devices[0], gaps)
    return {reason: round(found.ms(reason), 3) for reason in found.reasons}


def test_an_op_of_the_graph_that_the_host_computes() -> None:
    assert op_beside_a_gpu("model/ragged/Unique:Unique", 1.5) == {"host-op": 1.5, "dispatch": 0.5}


def test_an_op_that_launches_a_kernel_waits_or_is_short_is_dispatch() -> None:
    assert op_beside_a_gpu("model/dense/MatMul:MatMul", 1.5, launches=True) == {"dispatch": 2.0}
    assert op_beside_a_gpu("model/all_reduce:CollectiveReduceV2", 1.5) == {"dispatch": 2.0}
    assert op_beside_a_gpu("model/dense/ReadVariableOp:ReadVariableOp", 0.01) == {"dispatch": 2.0}


def test_without_a_host_nothing_is_known() -> None:
    assert waits(device((0, 4, "a", 1), (5, 10, "b", 2))) == {"unattributed": 1.0}


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    def spans(most: int) -> list[Span]:
        edges = sorted(draw(st.lists(st.floats(0, 100, width=32), min_size=2, max_size=2 * most)))
        return list(zip(edges[::2], edges[1::2], strict=False))

    kinds = {"gemm": KERNEL, "MemcpyH2D": H2D, "MemcpyD2H": D2H}
    acts = [(a, b, draw(st.sampled_from(sorted(kinds))), i % 4) for i, (a, b) in enumerate(spans(8))]
    gpu = device(*acts, kinds=kinds)
    known = ["ExecutorState::Process", "IteratorGetNextOp::DoCompute", "cudaMalloc", "EagerLocalExecute: Mul", "other"]
    threads = tuple(
        thread(
            draw(st.sampled_from(["python/1", "tf_Compute/2", "tf_data_iterator_resource/3"])),
            *[(a, b, draw(st.sampled_from(known))) for a, b in spans(6)],
            launches=tuple((a, b, draw(st.integers(0, 4))) for a, b in spans(4)),
        )
        for _ in range(draw(st.integers(0, 3)))
    )
    return Timeline((gpu,), threads, 0.0, 100.0)


@given(timelines(), st.integers(1, 5))
def test_every_moment_of_a_step_has_one_category(whole: Timeline, steps: int) -> None:
    edges = np.linspace(0, 100, steps + 1)
    found = profile_steps.StepTimes(edges[:-1], edges[1:], "drawn")
    idle_found, columns = step_division.divide_profile(whole, whole.devices[0], found)
    total = sum(columns.values(), np.zeros(steps))
    assert total == pytest.approx(edges[1:] - edges[:-1], rel=1e-6)
    assert all((column >= -1e-9).all() for column in columns.values())
    named = sum(idle_found.ms(reason) for reason in idle_found.reasons)
    assert named == pytest.approx(intervals.total_length(idle_found.gaps), abs=1e-6)


# ---- steps ---------------------------------------------------------------------------------------------------------


def turns(kernels: str, times: int, gap: float = 5.0) -> ProfiledDevice:
    """Each letter a kernel of 1 ms, the word repeated."""
    spans, at = [], 0.0
    for _ in range(times):
        for letter in kernels:
            spans.append((at, at + 1, letter, 0))
            at += 1
        at += gap
    return device(*spans)


def steps_of(gpu: ProfiledDevice | None, *threads: HostThread) -> profile_steps.StepTimes:
    end = max([100.0, *(t.end_ms.max() for t in threads if len(t.end_ms))])
    return profile_steps.find_profile_steps(Timeline((gpu,) if gpu else (), threads, 0.0, float(end)), gpu)


def test_the_kernels_own_repetition() -> None:
    found = steps_of(turns("abcbd", 6))
    assert found.source == "repetitions of the same 5 kernels"
    assert len(found) == 5  # the pause behind the sixth turn is not in the profile
    assert np.diff(found.start_ms) == pytest.approx(10.0)


def test_a_turn_begins_behind_the_longest_pause_and_is_whole() -> None:
    """Recording begins and ends amid a turn; what is rare in a turn (c, d) does not begin one."""
    whole = turns("ababcd", 6).activities
    part = whole.where((whole.start_ms >= 3) & (whole.start_ms < 58))
    found = steps_of(ProfiledDevice("/device:GPU:0", "GPU", "", {}, part))
    assert found.start_ms == pytest.approx([11, 22, 33, 44])
    assert found.end_ms == pytest.approx([22, 33, 44, 55])


def test_three_turns_are_found_where_only_one_beginning_leaves_three() -> None:
    """The pause is within a turn; a turn that began behind it would be there twice."""
    at = {"a": 0, "b": 1, "c": 2, "d": 8}
    found = steps_of(device(*[(10 * i + ms, 10 * i + ms + 1, name, 0) for i in range(3) for name, ms in at.items()]))
    assert found.start_ms == pytest.approx([0, 10, 20])


def test_no_repetition_is_declined() -> None:
    found = steps_of(turns("abcdefghij", 1))
    assert (found.source, len(found)) == ("", 1)


def test_two_turns_may_be_chance() -> None:
    assert steps_of(turns("abcd", 2)).source == ""


def test_keras_own_function_before_one_that_is_called_more() -> None:
    spans = [(10.0 * i, 10.0 * i + 8, "EagerLocalExecute: __inference_one_step_on_iterator_123") for i in range(5)]
    spans += [(2.0 * i, 2.0 * i + 1.9, "EagerLocalExecute: __inference_augment_7") for i in range(40)]
    found = steps_of(None, thread("python/1", *spans))
    assert found.source == "calls of the function 'one_step_on_iterator'"
    assert found.start_ms == pytest.approx([0, 10, 20, 30, 40])


def test_a_marked_step_is_believed_even_alone() -> None:
    gpu = turns("ab", 6)
    marked = ProfiledDevice(gpu.name, gpu.kind, "", {}, gpu.activities, (floats([3.0]), floats([20.0])))
    found = steps_of(marked)
    assert (len(found), found.source) == (1, "the steps that the profile marks on the device")


# ---- windows of recordings -----------------------------------------------------------------------------------------


def test_a_window_of_a_recording_reads_the_devices_own_timeline() -> None:
    """A piece of the V100's profile as if the recorder had made it: its clock, and steps of 2 ms."""
    path = Path(__file__).parent / "data" / "v100.xplane.pb"
    space = xplane.read_space(path)
    whole = timeline.read_timeline([space])
    begun = 5000.0
    first = whole.active[0].activities.start_ms[0] + begun + space.origin_ns / 1e6
    starts = first + 2.0 * np.arange(3)
    window = window_ops.open_window(path, 0.0, begun, StepTimes(starts, starts + 2.0, ""))
    seen = recording_windows.summarize_window(window)
    assert seen is not None
    device_, ran = seen.device, seen.ops
    assert device_.kind == "GPU"
    assert device_.kernels > 0
    assert 0 < device_.busy_ms <= 2.0
    assert ran.busy_ms == pytest.approx(device_.busy_ms, rel=0.2)
    busy_and_idle = device_.busy_ms + device_.idle_ms
    assert busy_and_idle == pytest.approx(2.0, rel=0.01)  # a kernel that begins before a step is not the step's


def test_a_window_on_a_processor_has_no_devices_timeline() -> None:
    path = Path(__file__).parent / "recorded" / "tf-host-graph.xplane.pb.gz"
    window = window_ops.open_window(path, 0.0, 0.0, StepTimes(floats([0.0]), floats([1e6]), ""))
    assert recording_windows.summarize_window(window) is None
