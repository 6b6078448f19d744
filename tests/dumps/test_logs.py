"""Logs of the kinds that people publish, each with the answer that is right for it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slowtrain import oom as dumps
from slowtrain.cli import main
from slowtrain.errors import InputError
from slowtrain.oom.dump_judgement import recorded_summary
from slowtrain.report import oom, pages

LOGS = Path(__file__).parent / "logs"
GIB, MIB = 1 << 30, 1 << 20
OTHERS, OWN, EITHER = "other processes", "this process", "this process or others"
LIMIT = "other processes, or a limit that was set"


@dataclass(frozen=True)
class Right:
    """What is right of a log: ``says`` are parts of the sentence, ``never`` what no advice may say."""

    outcome: str
    says: tuple[str, ...]
    asked: int | None = None
    place: str = ""
    also: str = ""
    held_by: str | None = None
    alone: bool | None = None
    constant: bool | None = None
    advice: tuple[str, ...] = ()
    never: tuple[str, ...] = ("halve the batch",)
    sure: bool = True
    figures: dict[str, int] = field(default_factory=dict)


FULL, TAKEN, LARGE = "full", "taken by others", "larger than the pool"
RIGHT = {
    "array_as_constant": Right(
        LARGE, ("whole array of 18.3 GiB", "constant", "14 GiB"), 19649475840, "/home/u/train.py:71", alone=True,
        held_by="nobody", constant=True, advice=("keep the array on the host", "tf.data"),
    ),
    "little_free_at_start": Right(
        TAKEN, ("other processes held 10.7 GiB of the card's 11.2 GiB before the run began",), 77762396,
        "/home/u/net.py:65", held_by=OTHERS, alone=False, constant=False, advice=("stop the other processes",),
        figures={"free_at_start_bytes": 500 * MIB},
    ),
    "head_cut_old_words": Right(FULL, ("29.9 MiB requested", "1.38 GiB of 1.39 GiB was already"), 31362908, held_by=OWN,
                                alone=False, advice=("the memory in use matters",)),
    "torch_other_process": Right(
        TAKEN, ("other processes held 5.5 GiB of the card's 7.79 GiB",), 20 * MIB, "/home/u/train.py:88",
        held_by=OTHERS, alone=False, never=("halve the batch", "expandable_segments"),
    ),
    "tpu_hbm": Right(
        LARGE, ("40.50 GiB, but hbm has 15.48 GiB: 25.02 GiB too much",), 43486543872, "/home/u/train.py:41",
        "/home/u/model.py:88", held_by="nobody", alone=True, advice=("recompute", "a third"),
    ),
    "jax_small_request": Right(
        "cannot tell", ("a small request of 6 MiB was refused", "already held the pool or the card"), 6 * MIB,
        "/home/u/render.py:150", "/home/u/models.py:689", held_by=EITHER, alone=False,
        never=("halve the batch", "jax.checkpoint"),
    ),
    "driver_refused_then_cudnn": Right(
        "no memory for a library", ("cuDNN failed because it found no", "refused 13.8 GiB"), held_by=EITHER,
        advice=("stop the other processes", "let the pool grow"), figures={"driver_refused_bytes": 14773796864},
    ),
    "killed_by_kernel": Right("killed by the system", ("the system killed the process", "the host's memory", "9 GiB"),
                              sure=False, advice=("keep less data",)),
    "tf10_ran_out_after_dump": Right(
        FULL, ("877 MiB requested", "305 MiB free", "572 MiB short"), 919999611, "train_mnist.py:61", held_by=OWN,
        alone=False, constant=False, advice=("divide the batch by 3",), figures={"in_use_bytes": 3865473636},
    ),
    # -- TensorFlow 1
    "tf1_old_total_and_free": Right(
        TAKEN, ("other processes held 7.53 GiB of the card's 7.92 GiB before the run began",), 288 * MIB,
        "/home/u/proj/nets.py:33", "classify.py:96", held_by=OTHERS, alone=False, constant=False,
    ),
    "tf115_original_stack_trace": Right(
        FULL, ("1.5 GiB requested", "675 MiB free"), 1610612736, "/home/u/seg/unet.py:42", "segment.py:188", OWN, False,
        False, ("divide the batch by 3",),
    ),
    "tf1_dst_tensor_const": Right(
        "cannot tell", ("a whole array of 586 MiB was copied to it as a constant",), 614400000, "alexnet.py:31",
        "alexnet.py:77", alone=False, constant=True, advice=("keep the array on the host",),
    ),
    "tf1_cudnn_alloc_failed": Right(
        "no memory for a library", ("cuDNN failed because",), None, "D:\\yolo\\core\\common.py:32", "train.py:176",
        EITHER, figures={"device_bytes": 6 * GIB},
    ),
    # -- TensorFlow 2
    "tf2_card_size_told_pool_small": Right(
        TAKEN, ("89 MiB of the card's 10.8 GiB",), 102760448, "vgg.py:14", held_by=LIMIT, alone=False, constant=False,
        advice=("stop the other processes", "raise it"),
    ),
    "tf2_dst_tensor_tiny_pool": Right(
        TAKEN, ("the pool got only 52.6 MiB",), 80216064, "model_main.py:113", held_by=LIMIT, alone=False,
        constant=False,
    ),
    "tf2_dst_tensor_error_alone": Right(
        "cannot tell", ("a whole array was copied to it as a constant",), None, "/home/u/pipeline.py:231",
        constant=True, advice=("tf.data", "batch size does not matter"),
    ),
    "tf2_dst_tensor_of_weights": Right(
        "cannot tell", ("a tensor was copied to it",), None, "/home/u/sd/pipeline.py:270", constant=True,
        never=("halve the batch", "tf.data"),
    ),
    "tf2_huge_pairs": Right(
        LARGE, ("484 GiB requested in one piece", "21.8 GiB"), 520000000000, "/home/u/knn.py:22", held_by="nobody",
        alone=True, constant=False, advice=("22 times the pool", "compute it in parts"),
        never=("halve", "divide the batch", "mixed_float16"),
    ),
    "tf2_host_pool": Right(FULL, ("the pinned host memory was full",), 4 * GIB, held_by=OWN, alone=False,
                           constant=False, advice=("not GPU memory",)),
    "tf2_tail_cut": Right("cannot tell", ("3 GiB requested", "unknown whether"), 3 * GIB, held_by=EITHER, alone=False,
                          constant=False, never=()),
    "tf_cudnn_version": Right(
        "not for want of memory", ("not because of memory", "cuDNN version"), None, "net.py:9", sure=False,
        never=("set_memory_growth", "stop the other processes"),
    ),
    "tf_context_refused": Right("no memory for a library", ("did not even have the memory to start",), held_by=OTHERS,
                                advice=("stop the other processes",), figures={"device_bytes": 11996954624}),
    "ipython_cell": Right("cannot tell", ("4 GiB requested",), 4 * GIB, "notebook cell 12:5", never=()),
    # -- PyTorch
    "torch_old_cached": Right(FULL, ("392 MiB requested", "206 MiB free"), 392 * MIB, "train.py:120", held_by=OWN,
                              alone=False, never=("halve the batch", "other processes")),
    "torch_no_sizes": Right("cannot tell", ("the error gives no size",), None, "/home/u/eval.py:12", held_by=EITHER,
                            advice=("nvidia-smi",)),
    "torch_hip_too_large": Right(LARGE, ("16 GiB requested in one piece", "15.2 GiB"), 16 * GIB, "/home/u/grid.py:38",
                                 held_by="nobody", alone=True, never=("expandable_segments", "other processes")),
    "torch_two_other_processes": Right(TAKEN, ("other processes held 16.5 GiB of the card's 23.7 GiB",), 508 * MIB,
                                       "/home/u/ddp.py:57", held_by=OTHERS, alone=False),
    "torch_beside_tensorflow": Right(
        FULL, ("this process holds 14.9 GiB outside PyTorch's pool",), 256 * MIB, "/home/u/mixed.py:19", held_by=OWN,
        alone=False, advice=("another framework in this process",), never=("halve the batch", "stop the other"),
    ),
    "torch_mps": Right(FULL, ("1.5 GiB requested",), 3 * GIB // 2, "/Users/u/train.py:64", held_by=OWN, alone=False,
                       never=()),
    "torch_cublas_alloc_failed": Right("no memory for a library", ("cuBLAS failed because it found no",), None,
                                       "/home/u/fit.py:40", held_by=EITHER, never=("tf.config",)),
    # -- JAX and TPU
    "tpu_reserve_fragmented": Right(
        "fragmented", ("6.48 GiB requested", "6.78 GiB free in total", "3.33 GiB"), 6957847020, "/home/u/run.py:90",
        held_by=OWN,
    ),
    "tpu_reserve_full": Right(FULL, ("3.95 GiB requested", "1.92 GiB free"), 4241280205, held_by=OWN, alone=False,
                              figures={"in_use_bytes": 6528350290, "limit_bytes": 8 * GIB}),
    "tpu_padded": Right(LARGE, ("41.74 GiB, but hbm has 16.00 GiB: 25.74 GiB too much",), 44817983734, held_by="nobody",
                        alone=True, advice=("32 times as large as its values",)),
    "tpu_vmem": Right(LARGE, ("59.79 MiB, but vmem has 16.00 MiB",), 62694359, "/home/u/ring.py:77", held_by="nobody",
                      alone=True, advice=("one kernel",), never=("halve the batch", "bfloat16")),
    "tpu_buffer": Right(FULL, ("512 MiB requested", "12.5 MiB free"), 512 * MIB, "/home/u/load.py:15", held_by=OWN,
                        alone=False),
    "jax_held_by_others": Right(
        "no memory for a library", ("cuDNN failed because it found no", "refused 59.4 GiB", "50 MiB free"), None,
        "/home/u/jx.py:4", held_by=EITHER, advice=("stop the other processes", "XLA_PYTHON_CLIENT_MEM_FRACTION"),
    ),
    "jax_cudnn_not_memory": Right("not for want of memory", ("not because of memory", "15.5 GiB free"), None,
                                  "<stdin>:1", sure=False, never=("stop the other processes", "MEM_FRACTION")),
    # -- the host
    "dmesg_cgroup": Right("killed by the system", ("the container's limit", "15.8 GiB of a limit of 16 GiB"),
                          advice=("raise the container's memory limit",)),
    "dmesg_global": Right("killed by the system", ("the kernel killed the process (python3)", "57.6 GiB")),
    "slurm": Right("killed by the system", ("Slurm's limit",), advice=("--mem",)),
    "kubernetes": Right("killed by the system", ("the container's limit",)),
    "exit_137_alone": Right("killed by the system", ("usually because", "dmesg"), sure=False),
    "numpy_unable": Right(FULL, ("NumPy requested 67.1 GiB",), 72048076390, "/home/u/prep.py:33", held_by=OWN,
                          advice=("do not keep all of it",), never=("halve the batch", "mixed_float16")),
    "dmesg_child_killed": Right("killed by the system", ("(getty)", "8 KiB", "another of its processes filled"),
                                advice=("the container's memory limit",)),
    # -- kinds that a second collection of public logs showed
    "tf2_pairs_pool_not_told": Right(
        LARGE, ("402 GiB requested in one piece",), 432000000000, "/home/u/search.py:37", held_by="nobody", alone=True,
        constant=False, advice=("compute it in parts",), never=("halve", "divide the batch", "mixed_float16"),
    ),
    "tf2_eager_table": Right("cannot tell", ("4.29 GiB requested",), 4608000000, constant=False,
                             advice=("if it is a weight or a table",), never=()),
    "tf1_node_that_waits": Right("cannot tell", ("392 MiB requested",), 411041792, "/home/u/blocks.py:21",
                                 held_by=EITHER, alone=False, constant=False, never=()),
    "tf1_host_pool_head_cut": Right("cannot tell", ("the pinned host memory ran out",), held_by=EITHER,
                                    advice=("not GPU memory",), figures={"limit_bytes": 32 * GIB}),
    "tf1_dump_head_and_tail_cut": Right("cannot tell", ("3 GiB requested", "a part of the allocator's dump"), 3 * GIB,
                                        never=(), figures={"largest_free_bytes": 5 * GIB // 2}),
    "tf1_dst_tensor_zeros": Right("cannot tell", ("a tensor of 256 MiB was copied",), 256 * MIB, "train.py:60",
                                  "train.py:90", alone=False, constant=False, advice=("nvidia-smi",)),
    "tf1_dst_tensor_initial_value": Right("cannot tell", ("128 MiB requested",), 128 * MIB, held_by=EITHER, alone=False,
                                          constant=False, advice=("nvidia-smi",)),
    "xla_unified_refused": Right("cannot tell", ("request of 16 MiB was",), 16 * MIB, held_by=EITHER, alone=False),
    "jax_hip_program": Right("cannot tell", ("80 GiB requested",), 80 * GIB, also="/home/u/pairs.py:55",
                             advice=("jax.checkpoint",), never=()),
    "tpu_slightly_over": Right(LARGE, ("15.52 GiB, but hbm has 15.48 GiB: 0.04 GiB too much",), 16664473108,
                               held_by="nobody", alone=True, advice=("99% of it",)),
    "tpu_cores": Right(LARGE, ("120.00 GiB, but hbm has 80.00 GiB",), 120 * GIB, held_by="nobody", alone=True,
                       advice=("embedding tables",), never=("halve the batch", "recompute")),
    "torch_capacity_misspelt": Right(FULL, ("48 MiB requested", "14 GiB, more than the card's 6 GiB"), 48 * MIB,
                                     held_by=OWN, alone=False, never=("halve the batch", "compute it in parts"),
                                     figures={"limit_bytes": 6 * GIB}),
    "torch_broken_lines": Right(FULL, ("20 GiB requested", "13.5 GiB free in total"), 20 * GIB, "/home/u/scan.py:77",
                                held_by=OWN, alone=False, never=()),
    "torch_cached_and_others": Right("fragmented", ("5 GiB requested", "7.25 GiB free"), 5 * GIB, held_by=OWN,
                                     alone=False, advice=("expandable_segments", "stop the other processes"), never=()),
    "tf1_constant_of_shape": Right("cannot tell", ("16 GiB requested",), 16 * GIB, constant=False,
                                   advice=("a smaller model",)),
    "tf2_error_in_two_lines": Right("cannot tell", ("the error gives no size",), None, "/home/u/infer.py:19",
                                    held_by=EITHER, constant=False, advice=("nvidia-smi",)),
    "tpu_error_in_two_lines": Right(FULL, ("6 MiB requested", "4 MiB free"), 6 * MIB, held_by=OWN, alone=False),
    "tpu_load_vmem": Right(LARGE, ("24.00 MiB, but vmem has 16.00 MiB",), 24 * MIB, held_by="nobody", alone=True,
                           advice=("one kernel",), never=("live_arrays",)),
    "jax_request_without_bytes": Right("cannot tell", ("512 MiB requested",), 512 * MIB, held_by=EITHER, alone=False,
                                       advice=("nvidia-smi",)),
    "jax_old_in_two_lines": Right("cannot tell", ("6 GiB requested",), 6 * GIB, never=()),
    "torch_nothing_of_its_own": Right(TAKEN, ("other processes held 14.4 GiB of the card",), 800 * MIB, held_by=OTHERS,
                                      alone=False),
    "torch_mps_metal_holds_it": Right(FULL, ("30 GiB requested", "12 GiB free", "60 GiB outside"), 30 * GIB,
                                      held_by=OWN, alone=False, advice=("Metal",), never=("tf.config",)),
    "numpy_lower_case": Right(FULL, ("NumPy requested 53.6 GiB",), 57600000000, held_by=OWN),
    "egg_of_a_library": Right(FULL, ("the host's memory ran out",), None, "train.py:65", held_by=OWN),
    "tf1_type_in_the_node": Right("cannot tell", ("234 MiB requested",), 245760000, held_by=EITHER, alone=False,
                                  constant=False, advice=("to a variable's update",)),
    "torch_head_cut": Right(FULL, ("24 MiB requested", "1.3 GiB of 2 GiB"), 24 * MIB, held_by=OWN, alone=False,
                            never=()),
    "loader_shared_memory": Right("killed by the system", ("/dev/shm",), advice=("--shm-size",)),
}  # fmt: skip
NOTHING_FAILED = {
    "only_autotune_larger_than_pool": ("workspace of up to 3.46 GiB, which exceeds the whole pool of 2.97 GiB", True),
    "autotune_partly_larger": ("1 request found none at first: it is nearly full", False),
    "tf0_autotune_only": ("2 requests found none at first", False),
    "tf1_pinned_refused": ("the driver refused pinned memory of the host 2 times", False),
}  # fmt: skip


def answer(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """As a user asks for it."""
    assert main(["oom", "--json", "-", str(LOGS / f"{name}.log")]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def place(said: dict[str, Any] | None) -> str:
    return f"{said['file']}:{said['line']}" if said else ""


def test_each_log_has_its_right_answer() -> None:
    assert {file.stem for file in LOGS.glob("*.log")} == {*RIGHT, *NOTHING_FAILED}


@pytest.mark.parametrize("name", RIGHT)
def test_the_right_answer(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    right = RIGHT[name]
    found = answer(name, capsys)
    first = found["findings"][0]
    assert found["outcome"] == first["outcome"] == right.outcome
    for part in right.says:
        assert part in found["says"]
    needed = first["request"]["rounded_bytes"] or first["request"]["bytes"]
    assert needed == right.asked
    assert place(first["request"]["place"]) == right.place
    assert [place(one) for one in first["request"]["other_places"]] == ([right.also] if right.also else [])
    asked = first["questions"]
    assert asked["held_before_by"] == right.held_by
    assert asked["exceeds_device_alone"] is right.alone
    assert asked["constant_of_array"] is right.constant
    assert first["sure"] is right.sure
    assert {key: first[key] for key in right.figures} == right.figures


@pytest.mark.parametrize("name", RIGHT)
def test_advice_that_helps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    right = RIGHT[name]
    says = " ".join(one["says"] for one in answer(name, capsys)["findings"][0]["advice"])
    assert says
    for part in right.advice:
        assert part in says
    for part in right.never:
        assert part not in says


@pytest.mark.parametrize("name", NOTHING_FAILED)
def test_where_nothing_failed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    says, harmless = NOTHING_FAILED[name]
    found = answer(name, capsys)
    assert says in found["says"]
    assert (found["findings"], found["outcome"], found["harmless"]) == ([], None, harmless)


@pytest.mark.parametrize("name", [*RIGHT, *NOTHING_FAILED])
def test_the_text_and_the_page_say_the_same(name: str) -> None:
    found = dumps.read_log(LOGS / f"{name}.log", name)
    text = " ".join(oom.oom_text(found).split())
    assert text.startswith(" ".join(oom.oom_headline(found).split()))
    assert all(len(row) <= 80 for row in oom.oom_text(found).splitlines())
    page = pages.oom_page(found)
    for one in found.findings:
        for _, said in oom.question_facts(one):
            assert said in page


def test_what_is_doubtful_is_no_reason_of_a_run() -> None:
    """``slowtrain run`` names memory as the reason of a failure only where the log does."""
    for name, right in RIGHT.items():
        told = recorded_summary(dumps.read_log(LOGS / f"{name}.log", name))
        assert (told is not None) is right.sure, name


def _read(data: bytes) -> None:
    try:
        found = dumps.read_log(io.BytesIO(data), "cut.log")
    except InputError:
        return
    json.loads(oom.oom_json(found))
    assert oom.oom_text(found)


@pytest.mark.parametrize("name", [*RIGHT, *NOTHING_FAILED])
def test_a_cut_at_any_line_raises_nothing(name: str) -> None:
    """Nor does one within a line, nor a line that is missing."""
    whole = (LOGS / f"{name}.log").read_bytes().splitlines(keepends=True)
    for at in range(len(whole)):
        line = whole[at]
        _read(b"".join(whole[at:]))
        _read(b"".join(whole[:at]))
        _read(b"".join(whole[:at]) + line[: len(line) // 2])
        _read(line[len(line) // 2 :] + b"".join(whole[at + 1 :]))
        _read(b"".join(whole[:at] + whole[at + 1 :]))


@pytest.mark.parametrize("name", RIGHT)
def test_without_its_tail_nothing_is_made_up(name: str) -> None:
    """Cut anywhere from behind, the sizes and places are those of the whole log."""
    whole = (LOGS / f"{name}.log").read_bytes().splitlines(keepends=True)
    sizes = {int(found) for found in re.findall(r"\d+", b"".join(whole).decode())} | {RIGHT[name].asked}
    for at in range(len(whole)):
        try:
            found = dumps.read_log(io.BytesIO(b"".join(whole[:at])), "cut.log")
        except InputError:
            continue
        for one in found.findings:
            assert one.dump.request.needed_bytes in {None, RIGHT[name].asked} or one.dump.request.needed_bytes in sizes


@pytest.mark.parametrize(
    "line",
    ["loss 137.0", "Killed 3 monsters in episode 4", "exit code 0", "memory usage 12 GB", "the oom of the kitchen",
     "INFO: out of memory tests passed", "reason: Completed, OOMKilled: false", "CUDNN_STATUS_SUCCESS",
     "cuDNN version 8.9 loaded, memory growth is on"],
)  # fmt: skip
def test_words_of_a_healthy_log_say_nothing(line: str) -> None:
    with pytest.raises(InputError, match="ran out of memory"):
        dumps.read_log(io.BytesIO(f"Epoch 1/2\n{line}\nEpoch 2/2\n".encode()), "train.log")


TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB"
)
# In a container PyTorch tells its own process as another.
CONTAINER = (
    f"{TORCH} of which 1.20 GiB is free. Process 123 has 77.94 GiB memory in use. Of the allocated memory 76.00 GiB is "
    "allocated by PyTorch, and 700.00 MiB is reserved by PyTorch but unallocated."
)
CONTAINER_OF_TWO = (
    f"{TORCH} of which 1.20 GiB is free. Process 123 has 37.90 GiB memory in use. Process 124 has 40.04 GiB memory in "
    "use. Of the allocated memory 39.00 GiB is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch but "
    "unallocated."
)
OLDER = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.90 GiB total capacity; 14.10 GiB already "
    "allocated; 0 bytes free; 15.10 GiB reserved in total by PyTorch)"
)
XPU = "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 15.91 GiB."
XLA = "XlaRuntimeError: RESOURCE_EXHAUSTED:"
KILLED = "killed by the system"
LIBRARY = "no memory for a library"
ON_CPU = (
    "ResourceExhaustedError: OOM when allocating tensor with shape[65536,65536] and type float on "
    "/job:localhost/replica:0/task:0/device:CPU:0"
)
DOUBT = "cannot tell"
LINES = [
    (CONTAINER, FULL, 2 * GIB, OWN),
    (CONTAINER_OF_TWO, TAKEN, 2 * GIB, OTHERS),
    (OLDER, FULL, 2 * GIB, OWN),
    (XPU, LARGE, 20 * GIB, "nobody"),
    ("ResourceExhaustedError: failed to allocate memory [Op:AddV2]", DOUBT, None, EITHER),
    ("ResourceExhaustedError:  SameWorkerRecvDone unable to allocate output tensor. Key: /j", DOUBT, None, EITHER),
    ("InternalError: CUDA runtime implicit initialization on GPU:0 failed. Status: out of memory", LIBRARY,
     None, OTHERS),
    ("InternalError: Blas GEMM launch failed : a.shape=(64, 100), b.shape=(100, 10)", DOUBT, None, None),
    (f"{XLA} Out of memory allocating 43432960000 bytes.", DOUBT, 43432960000, None),
    (f"{XLA} Failed to allocate 2684354560 bytes for new constant", DOUBT, 2684354560, None),
    (f"{XLA} Allocation (size=46426751488) would exceed memory (size=17179869184)", LARGE, 46426751488, "nobody"),
    ("E1000: CompileTimeHbmOom: Ran out of memory in memory space hbm. Used 16.72G of 15.75G hbm. Exc", LARGE,
     17952963297, "nobody"),
    ("RuntimeError: NCCL error: unhandled cuda error, Cuda failure 2 'out of memory'", LIBRARY, None, EITHER),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", LIBRARY, None, EITHER),
    ("MIOpen Error: hipoc_program.cpp:300: hipErrorOutOfMemory", LIBRARY, None, EITHER),
    ("InternalError: Failed to call ThenRnnForward with model config: [rnn_mode, 2]", DOUBT, None, None),
    (f"{ON_CPU} by allocator cpu", FULL, 16 * GIB, OWN),
    (f"{ON_CPU} by allocator mklcpu", FULL, 16 * GIB, OWN),
    (f"{ON_CPU} by allocator bfc_cpu_allocator_for_gpu", DOUBT, 16 * GIB, None),
    ("MemoryError: Unable to allocate array with shape (60000, 784, 100) and data type float64", FULL,
     37632000000, OWN),
    ("RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 9663676416 bytes", FULL,
     9663676416, OWN),
    ("terminate called after throwing an instance: what():  std::bad_alloc", FULL, None, OWN),
    ("OSError: [Errno 12] Cannot allocate memory", FULL, None, OWN),
    ("OSError: [WinError 1455] The paging file is too small for this operation to complete", FULL, None, OWN),
    ("exitcode  : -9 (pid: 4021)", KILLED, None, None),
    ("container exited with code 137", KILLED, None, None),
    ("subprocess.CalledProcessError: Command died with <Signals.SIGKILL: 9>.", KILLED, None, None),
    ("RuntimeError: DataLoader worker (pid 271) is killed by signal: Killed.", KILLED, None, None),
    ("srun: error: node12: task 3: Out Of Memory", KILLED, None, None),
    ("slurmstepd: error: Exceeded job memory limit at some point.", KILLED, None, None),
    ("   JobState=OUT_OF_MEMORY Reason=OutOfMemory Dependency=(null)", KILLED, None, None),
    ("The node was low on resource: memory. Container main was using 30Gi", KILLED, None, None),
    ("Your notebook tried to allocate more memory than is available. It has restarted.", KILLED, None, None),
    ("zsh: killed     python train.py", KILLED, None, None),
    ("train.sh: line 3: 12345 Killed                  python train.py", KILLED, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "outcome", "asked", "held_by"), LINES, ids=[line[:40] for line, *_ in LINES])
def test_what_one_line_tells(line: str, outcome: str, asked: int | None, held_by: str | None) -> None:
    (one,) = dumps.read_log(io.BytesIO(f"Epoch 1/2\n{line}\n".encode()), "train.log").findings
    assert (str(one.outcome), one.dump.request.needed_bytes) == (outcome, asked)
    assert (str(one.questions.held_by) if one.questions.held_by is not None else None) == held_by
    assert one.advice


def test_a_constant_of_xla_is_one() -> None:
    line = b"XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate 2684354560 bytes for new constant"
    (one,) = dumps.read_log(io.BytesIO(line), "train.log").findings
    assert one.questions.constant is True
    assert "pass it as an argument" in " ".join(advice.says for advice in one.advice)


def test_a_display_beside_the_run_is_not_the_reason() -> None:
    """It holds 0.9 of 11.2 GiB; the run itself holds ten, and its end would have been enough for this one request."""
    text = (LOGS / "little_free_at_start.log").read_text()
    text = text.replace("freeMemory: 500.00MiB", "freeMemory: 10.25GiB")
    text = text.replace("Limit:                   285212672", "Limit:                 10465865728")
    text = text.replace("InUse:                   207948800", "InUse:                 10435865728")
    text = text.replace("Sum Total of in-use chunks: 198.32MiB", "Sum Total of in-use chunks: 9.72GiB")
    (one,) = dumps.read_log(io.BytesIO(text.encode()), "train.log").findings
    assert str(one.outcome) == "full"
    assert "other processes held 942 MiB" in one.says
    assert one.questions.held_by is not None
    assert str(one.questions.held_by) == OWN
    assert one.advice[0].says.startswith("stop the other processes")
