"""What logs say of memory: real ones, drawn ones of every version, prefixed, interleaved, cut, damaged, long."""

from __future__ import annotations

import bz2
import gc
import gzip
import io
import json
import lzma
import random
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from slowtrain import oom as dumps
from slowtrain.cli import main
from slowtrain.errors import InputError
from slowtrain.oom.log_reader import LOG_BLOCK_BYTES, LogReader
from slowtrain.report import oom, pages
from slowtrain.shared.exhaustion import Exhaustion, FailureOutcome, PoolKind, Purpose

from .drawn import FULL, MIB, PIECES, STYLES, chunk, dump, error, prefix

DATA = Path(__file__).parent / "data"


def read(lines: list[str] | bytes) -> Exhaustion:
    data = lines if isinstance(lines, bytes) else "\n".join(lines).encode()
    return dumps.read_log(io.BytesIO(data), "train.log")


# -- real


@pytest.mark.parametrize("version", ["tf215", "tf221"])
def test_a_real_fragmented_pool(version: str) -> None:
    found = dumps.read_log(DATA / f"{version}-frag.log.gz", "log")
    (one,) = found.findings
    dump_ = one.dump
    assert (one.outcome, dump_.pool, dump_.whole, dump_.repeats) == (FailureOutcome.FRAGMENTED, PoolKind.HOST, True, 0)
    assert dump_.request.shape == (1024, 12288)
    assert dump_.request.needed_bytes == 1024 * 12288 * 4
    assert (dump_.request.op, str(dump_.request.place)) == ("Fill", "/home/user/frag.py:5")
    # 20 tensors of 1024 x 1024 floats are kept, and a number of the random generator.
    assert [(h.each_bytes, h.count) for h in dump_.by_size] == [(4 * MIB, 20), (256, 1)]
    assert (dump_.in_use_bytes or 0) + (dump_.free_bytes or 0) == dump_.pool_bytes == 200 * MIB
    assert dump_.largest_free_bytes == 34 * MIB
    assert dump_.growth_bytes == 0


@pytest.mark.parametrize(("version", "outcome"), [("tf215", FailureOutcome.FULL), ("tf221", FailureOutcome.FRAGMENTED)])
def test_a_real_step(version: str, outcome: FailureOutcome) -> None:
    (one,) = dumps.read_log(DATA / f"{version}-mlp.log.gz", "log").findings
    assert one.outcome is outcome
    assert str(one.dump.request.place) == "/home/user/mlp.py:6"
    assert one.dump.request.op.endswith(("dense/Relu", "dense_1/MatMul/MatMul"))
    assert one.dump.request.dtype == "float"


def test_a_real_full_card_under_jax() -> None:
    """A loop that keeps each result of 8192 x 8192 floats: 237 of them, and no room for a product's workspace."""
    found = dumps.read_log(DATA / "jax-h100-full.log.gz", "log")
    (one,) = found.findings
    dump_ = one.dump
    assert (one.outcome, dump_.jax, dump_.whole, dump_.pool) == (FailureOutcome.FULL, True, True, PoolKind.DEVICE)
    assert dump_.request.needed_bytes == 301990144
    assert [(h.name, h.count) for h in dump_.by_op] == [("jit_grow", 237)]
    assert [(h.each_bytes, h.count) for h in dump_.by_size] == [(256 * MIB, 236), (256 * MIB + 512, 1)]
    assert (dump_.in_use_bytes or 0) + (dump_.free_bytes or 0) == dump_.pool_bytes == 63763906560
    assert dump_.largest_free_bytes == dump_.free_bytes == 144702976
    assert "150 MiB short" in one.says
    assert one.advice[0].says.startswith("jit_grow made 236 pieces of 256 MiB that are still held")
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION=0.95" in one.advice[1].says
    assert any("raises only where Python waits for a result" in note for note in found.notes)


def test_a_real_fragmented_card_under_jax() -> None:
    """Every second of 150 arrays of 384 MiB is freed, then 20 GiB are asked for."""
    (one,) = dumps.read_log(DATA / "jax-h100-fragmented.log.gz", "log").findings
    dump_ = one.dump
    assert (one.outcome, dump_.jax, dump_.whole) == (FailureOutcome.FRAGMENTED, True, True)
    assert dump_.request.needed_bytes == 20 << 30
    assert [(h.name, h.count) for h in dump_.by_op] == [("jit_broadcast_in_dim", 75), ("jit_convert_element_type", 1)]
    # 74 freed pieces, what was never used behind them with the last one, and 256 bytes.
    assert (dump_.free_pieces, dump_.largest_free_bytes) == (76, 3768581632)
    assert "cuda_async" in one.advice[0].says
    assert one.advice[0].enough is True


@pytest.mark.parametrize("kind", ["full", "fragmented"])
def test_of_jax_no_setting_of_tensorflow(kind: str) -> None:
    found = dumps.read_log(DATA / f"jax-h100-{kind}.log.gz", "log")
    said = " ".join(advice.says for one in found.findings for advice in one.advice)
    for word in ("TF_GPU", "set_memory_growth", "LogicalDevice", "TF_CPU", "drop_remainder"):
        assert word not in said


def test_a_real_compilation_that_found_little_room() -> None:
    found = dumps.read_log(DATA / "jax-h100-keras.log.gz", "log")
    assert (found.findings, found.jax, dict(found.retries)) == ((), True, {"GPU_0_bfc": 3})
    assert oom.oom_headline(found) == (
        "nothing failed for lack of memory, but 3 requests of up to 16.4 GiB found no room"
    )
    assert "while it compiles" in oom.oom_text(found)


# -- every version


@pytest.mark.parametrize("style", STYLES)
def test_full_in_every_version(style: str) -> None:
    (one,) = read([*dump(style, FULL, 80 * MIB), *error(style, "512,40960")]).findings
    assert one.outcome is FailureOutcome.FULL
    assert (one.dump.in_use_bytes, one.dump.free_bytes) == (220 * MIB, 10 * MIB)
    assert one.dump.request.shape == (512, 40960)
    assert str(one.dump.request.place) == "train.py:41"
    assert one.dump.request.op.endswith("model/dense/MatMul")
    assert (one.dump.by_size[0].each_bytes, one.dump.by_size[0].count) == (60 * MIB, 2)
    assert "70 MiB short" in one.says


def test_what_is_short_adds_up() -> None:
    """The pool may grow by 40 MiB, which counts as had."""
    (one,) = read(dump("2.21", FULL, 80 * MIB, limit=270 * MIB)).findings
    assert "80 MiB requested, 10 MiB free in total and 40 MiB left to grow, 30 MiB short" in one.says


@pytest.mark.parametrize("style", STYLES)
def test_fragmented_in_every_version(style: str) -> None:
    (one,) = read(dump(style, PIECES, 80 * MIB)).findings
    assert one.outcome is FailureOutcome.FRAGMENTED
    assert (one.dump.free_bytes, one.dump.largest_free_bytes) == (84 * MIB, 44 * MIB)
    first = one.advice[0]
    assert "cuda_malloc_async" in first.says
    assert (first.gain_bytes, first.enough) == (84 * MIB, True)


def test_ops_where_the_log_tells_them() -> None:
    (one,) = read(dump("2.3", FULL, 80 * MIB)).findings
    assert [(h.name, h.bytes) for h in one.dump.by_op] == [
        ("model/dense/MatMul", 100 * MIB), ("Adam/mul", 60 * MIB), ("model/dense/Relu", 60 * MIB)
    ]  # fmt: skip


def test_tensors_reported_upon_the_error() -> None:
    said = error("1.14", "8,8")
    usage = [
        "",
        "Current usage from device: /job:localhost/replica:0/task:0/device:GPU:0, allocator: GPU_0_bfc",
        "  250.50MiB from net/conv2d_5/Conv2D",
        "  200.00MiB from net/conv2d_5/Conv2D",
        "  167.00MiB from net/conv2d_2/Conv2D",
        "  Remaining 1252 nodes with 98.00MiB",
    ]
    (one,) = read([*dump("1.14", FULL, 80 * MIB), *said, *usage]).findings
    assert [(h.name, h.count) for h in one.dump.by_op] == [
        ("net/conv2d_5/Conv2D", 2), ("net/conv2d_2/Conv2D", 1), ("all others", 1252)
    ]  # fmt: skip


def test_a_pool_that_others_kept_from_growing() -> None:
    (one,) = read(dump("2.8", FULL, 80 * MIB, limit=8000 * MIB)).findings
    assert one.outcome is FailureOutcome.TAKEN
    assert "nvidia-smi" in one.advice[0].says
    assert one.advice[0].gain_bytes == (8000 - 230) * MIB


@pytest.mark.parametrize("allocator", ["gpu_host_bfc", "cuda_host_bfc"])
def test_the_pinned_pool_is_not_the_gpu(allocator: str) -> None:
    (one,) = read(dump("2.8", FULL, 80 * MIB, allocator=allocator)).findings
    assert one.dump.pool is PoolKind.PINNED
    assert "host memory, not GPU memory" in one.advice[0].says


def test_one_piece_larger_than_the_pool() -> None:
    (one,) = read(dump("2.15", FULL, 8000 * MIB, limit=4000 * MIB)).findings
    assert one.outcome is FailureOutcome.TOO_LARGE


def test_requests_that_were_met_otherwise_are_no_failure() -> None:
    said = (
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.20GiB with freed_by_count=0. The caller "
        "indicates that this is not a failure, but this may mean that there could be performance gains."
    )
    found = read([prefix("2.8", "W") + said] * 7)
    assert (found.findings, dict(found.retries)) == ((), {"GPU_0_bfc": 7})
    assert "nearly full" in oom.oom_headline(found)
    once = read([prefix("2.8", "W") + said])
    assert "but 1 request found none at first" in oom.oom_headline(once)
    assert "what was asked once and" in " ".join(oom.oom_text(once).split())


# -- what it was for


VENV = "/home/user/venv/lib/python3.11/site-packages"
BUILDS = [
    "Traceback (most recent call last):",
    '  File "/home/user/big.py", line 2, in <module>',
    f'  File "{VENV}/keras/src/models/sequential.py", line 195, in build',
    f'  File "{VENV}/keras/src/utils/traceback_utils.py", line 122, in error_handler',
    f'  File "{VENV}/keras/src/backend/tensorflow/random.py", line 34, in uniform',
]
FITS = [
    "Traceback (most recent call last):",
    '  File "/home/user/big.py", line 4, in <module>',
    f'  File "{VENV}/keras/src/backend/tensorflow/trainer.py", line 399, in fit',
]
EAGER = (
    "errors_impl.ResourceExhaustedError: {{function_node __wrapped__AddV2_device_x}} OOM when allocating tensor "
    "with shape[4096,4096] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu_bfc "
    "[Op:AddV2]"
)
FROM_20 = [(220 * MIB, "a"), (20 * MIB, None)]


def cpu(asked: int, op: str) -> list[str]:
    return dump("2.21", FROM_20, asked, allocator="cpu_bfc", op=op)


def advised(lines: list[str]) -> tuple[Purpose, list[str]]:
    (one,) = read(lines).findings
    return one.purpose, [advice.says for advice in one.advice]


@pytest.mark.parametrize("asked", [64 * MIB, 30 * MIB])
def test_a_variable_that_is_made_needs_no_smaller_batch(asked: int) -> None:
    purpose, says = advised([*cpu(asked, "AddV2"), *BUILDS, EAGER])
    assert purpose is Purpose.VARIABLE
    assert says[0].startswith("a smaller model")
    assert not any("halve the batch" in one for one in says)
    assert says[-1].startswith("raise the limit")
    assert f"by {asked // MIB - 20} MiB or more for this tensor alone" in says[-1]
    assert "the rest of the model" in says[-1]


@pytest.mark.parametrize(
    "op",
    ["StatefulPartitionedCall/adam/AssignAddVariableOp_4", "Adam/Adam/update/ResourceApplyAdam", "training/SGD/mul_7",
     "loss_scale_optimizer/cond/Mul", "train/GradientDescent/update_w/ApplyGradientDescent"],
)  # fmt: skip
def test_of_an_update_halving_the_batch_is_not_enough(op: str) -> None:
    found = read(cpu(30 * MIB, op))
    (one,) = found.findings
    assert one.purpose is Purpose.UPDATE
    assert [a.says.split(" (")[0] for a in one.advice][:2] == ["a smaller model", one.advice[1].says]
    assert "less state" in one.advice[1].says
    assert not any("halve the batch" in a.says or a.enough for a in one.advice)
    assert json.loads(oom.oom_json(found))["findings"][0]["request"]["purpose"] == "a variable's update"


@pytest.mark.parametrize(
    ("op", "frames", "purpose"),
    [
        ("model/dense/Relu", [], Purpose.STEP),
        ("Relu", FITS, Purpose.STEP),
        ("Mul", [*FITS, f'  File "{VENV}/keras/src/optimizers/adam.py", line 9, in update_step'], Purpose.UPDATE),
        ("Mul", [*FITS, f'  File "{VENV}/keras/optimizers/optimizer_v2.py", line 9, in minimize'], Purpose.STEP),
        ("Fill", [*FITS, f'  File "{VENV}/keras/src/initializers/constant_initializers.py", line 9, in __call__'],
         Purpose.VARIABLE),
        ("dense/kernel/Initializer/random_uniform/mul", [], Purpose.VARIABLE),
        ("StatefulPartitionedCall/gradient_tape/model/dense/MatMul/MatMul_1", FITS, Purpose.UNKNOWN),
        ("gradient_tape/adam_net/Relu", [], Purpose.STEP),
        ("model/adam/UnsortedSegmentSum", [], Purpose.UNKNOWN),
        ("Fill", ["Traceback (most recent call last):", '  File "a.py", line 1, in build'], Purpose.UNKNOWN),
    ],
)  # fmt: skip
def test_what_the_op_or_the_traceback_tells(op: str, frames: list[str], purpose: Purpose) -> None:
    error_ = EAGER.replace("AddV2", op) if frames else ""
    found, says = advised([*cpu(30 * MIB, op), *frames, error_])
    assert found is purpose
    halves = [i for i, one in enumerate(says) if "halve the batch" in one]
    if purpose is Purpose.STEP:
        assert halves == [0]
    elif purpose is Purpose.UNKNOWN:
        assert halves == [len(says) - 1]
        assert "the log does not show" in says[-1]


def test_of_several_ops_that_fail_together_the_line_is_that_of_the_one_that_is_named() -> None:
    lines = [
        *cpu(64 * MIB, "StatefulPartitionedCall/adam/AssignAddVariableOp_4"),
        *cpu(64 * MIB, "StatefulPartitionedCall/adam/Square"),
        *FITS,
        "errors_impl.ResourceExhaustedError: Graph execution error:",
        "Detected at node adam/AssignAddVariableOp_4 defined at (most recent call last):",
        '  File "/home/user/big.py", line 4, in <module>',
        EAGER.rpartition(" [Op")[0].partition("}} ")[2],
        "\t [[{{node adam/AssignAddVariableOp_4}}]]",
    ]
    first, other = read(lines).findings
    assert first.dump.request.op.endswith("AssignAddVariableOp_4")
    assert str(first.dump.request.place) == "/home/user/big.py:4"
    assert other.dump.request.place is None


# -- other frameworks


def test_cudas_own_pool() -> None:
    file = "gpu_cudamallocasync_allocator.cc:1]"
    lines = [
        f"E0000 00:00:1.1   7 {file} gpu_async_3 cuMemAllocAsync failed to allocate 40000000000 bytes: out of memory",
        " Reported by CUDA: Free memory/Total memory: 22635544576/85095874560",
        f"E0000 00:00:1.1   7 {file} Stats: Limit:                               0",
        "InUse:                     61982909300",
        "MaxInUse:                  61982909300",
        "",
        f"E0000 00:00:1.1   7 {file} Histogram of current allocation: (allocation_size, nb_allocation)",
        f"E0000 00:00:1.1   7 {file} 20000000000, 3",
    ]
    (one,) = read(lines).findings
    assert one.outcome is FailureOutcome.FULL
    assert (one.dump.limit_bytes, one.dump.driver_free_bytes) == (85095874560, 22635544576)
    assert one.dump.by_size[0].count == 3


def test_xla_and_its_buffers() -> None:
    lines = [
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.",
        "BufferAssignment OOM Debugging.",
        "Peak buffers:",
        "        Buffer 1:",
        "                Size: 6.00MiB",
        '                Operator: op_name="jit(f)/concatenate" source_file="models.py" source_line=689',
        "                XLA Label: concatenate",
        "                Shape: f32[4096,128,3]",
        "                ==========================",
        "",
        "        Buffer 2:",
        "                Size: 384.0KiB",
        "                Entry Parameter Subshape: f32[256,128,3]",
    ]
    (one,) = read(lines).findings
    assert (one.outcome, one.dump.request.bytes) == (FailureOutcome.UNKNOWN, 6291456)
    assert [h.name for h in one.dump.by_op] == ["jit(f)/concatenate", "f32[256,128,3]"]


# What JAX leaves in a log by itself: its dump's lines are information, which TF_CPP_MIN_LOG_LEVEL=1 leaves out.
JAX_USUAL = r"""
W0513 09:18:45.1 1 hlo_rematerialization.cc:3021] Can't reduce memory use below 67.69GiB (72678595712 bytes) by \
rematerialization; only reduced to 95.40GiB (102432320060 bytes), down from 95.40GiB (102432320060 bytes) originally
W0513 09:18:55.2 1 bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate 95.40GiB \
(rounded to 102432004352)requested by op
If the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async' will improve
Current allocation summary follows.
W0513 09:18:55.3 1 bfc_allocator.cc:512] ****
E0513 09:18:55.4 1 pjrt_stream_executor_client.cc:2908] Execution of replica 0 failed: RESOURCE_EXHAUSTED: \
Out of memory while trying to allocate 102432004144 bytes.
Traceback (most recent call last):
  File "/home/user/train.py", line 17, in <module>
  File "/home/user/venv/lib/python3.12/site-packages/jax/_src/api.py", line 9, in fun
jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 95.40GiB.
""".replace("\\\n", "").replace("****", "****" + "_" * 96)


def test_jax_without_its_dump() -> None:
    found = read(JAX_USUAL.encode())
    (one,) = found.findings
    assert (found.dumps, one.outcome, one.dump.jax) == (1, FailureOutcome.UNKNOWN, True)
    assert (one.dump.request.needed_bytes, str(one.dump.request.place)) == (102432004352, "/home/user/train.py:17")
    assert "the allocator's map shows 4% of the pool in use" in one.says
    assert any("needs 95.4 GiB at its peak" in note and "67.7 GiB" in note for note in found.notes)
    assert any("TF_CPP_MIN_LOG_LEVEL=0" in advice.says for advice in one.advice)


@pytest.mark.parametrize(
    ("said", "bytes_"),
    [
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.", 6291456),
        ("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 20.00GiB.", 20 << 30),
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 2.99GiB (3206250496B) on device 0",
         3206250496),
    ],
)  # fmt: skip
def test_jaxs_error_alone(said: str, bytes_: int) -> None:
    (one,) = read(["Traceback (most recent call last):", '  File "train.py", line 3, in <module>', said]).findings
    assert (one.outcome, one.dump.jax, one.dump.request.needed_bytes) == (FailureOutcome.UNKNOWN, True, bytes_)
    assert str(one.dump.request.place) == "train.py:3"
    assert any("XLA_PYTHON_CLIENT_MEM_FRACTION" in advice.says for advice in one.advice)


def test_the_same_error_of_tensorflow_is_not_jaxs() -> None:
    said = "ResourceExhaustedError: Out of memory while trying to allocate 6291456 bytes. [Op:__inference_step_9]"
    (one,) = read([f"tensorflow.python.framework.errors_impl.{said}"]).findings
    assert not one.dump.jax
    assert not any("XLA_PYTHON_CLIENT" in advice.says for advice in one.advice)


def test_what_a_program_of_xla_needs_by_its_own_sums() -> None:
    lines = [
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.",
        "BufferAssignment OOM Debugging.",
        "BufferAssignment stats:",
        "             parameter allocation:  372.76MiB",
        "              constant allocation:         0B",
        "        maybe_live_out allocation:    9.64GiB",
        "     preallocated temp allocation:    4.44GiB",
        "                 total allocation:   14.44GiB",
        "              total fragmentation:  680.30MiB (4.60%)",
        "",
        "Epoch 2/9",
    ]
    (one,) = read(lines).findings
    assert [h.name for h in one.dump.by_part] == ["its results", "its temporaries", "the program's arguments"]
    (one,) = read([*lines[:9], "Peak buffers:", "\tBuffer 1:", "\t\tSize: 6.00MiB", "\t\tXLA Label: fusion"]).findings
    assert [(h.name, h.bytes) for h in one.dump.by_op] == [("fusion", 6 * MIB)]


def test_a_card_that_another_process_holds_when_jax_starts() -> None:
    said = "failed to allocate 59.38GiB (63763906560 bytes) from device: RESOURCE_EXHAUSTED: CUDA_ERROR_OUT_OF_MEMORY"
    found = read([f"E0101 10:00:00.000001 7 cuda_executor.cc:1059] {said}: out of memory"])
    assert (found.findings, found.refusals) == ((), 1)
    assert "others hold the card's memory" in oom.oom_text(found)


@pytest.mark.parametrize("kind", ["full", "fragmented"])
def test_a_real_log_of_jax_cut_anywhere_gives_no_wrong_answer(kind: str) -> None:
    whole = gzip.decompress((DATA / f"jax-h100-{kind}.log.gz").read_bytes()).splitlines(keepends=True)
    right = FailureOutcome.FULL if kind == "full" else FailureOutcome.FRAGMENTED
    for at in range(1, len(whole), 7):
        for part in (whole[at:], whole[:at]):
            try:
                found = read(b"".join(part))
            except InputError:
                continue
            assert {f.outcome for f in found.findings} <= {right, FailureOutcome.UNKNOWN}


OLD = "(GPU 0; 10.76 GiB total capacity; 643.57 MiB already allocated; 8.20 GiB free; 32.43 MiB cached)"
LATER = (
    "(GPU 0; 31.72 GiB total capacity; 24.89 GiB already allocated; 6.12 MiB free; 30.70 GiB reserved in total "
    "by PyTorch)"
)
NEW = (
    "GPU 0 has a total capacity of 23.69 GiB of which 15.56 MiB is free. Process 12 has 20.00 GiB memory in use. "
    "Of the allocated memory 3.10 GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize(
    ("said", "outcome"), [(OLD, FailureOutcome.FRAGMENTED), (LATER, FailureOutcome.FULL), (NEW, FailureOutcome.TAKEN)]
)
def test_pytorchs_one_line(said: str, outcome: FailureOutcome) -> None:
    asked = "8.13 GiB" if outcome is not FailureOutcome.TAKEN else "500.00 MiB"
    (one,) = read([f"RuntimeError: CUDA out of memory. Tried to allocate {asked} {said}"]).findings
    assert one.outcome is outcome


# -- what launchers put around


PREFIXES = ("[1,{}]<stderr>:", "[rank{}]: ", "{}: ", "worker-{}  | ", "[pod/train-{}/main] ",
            "2024-01-31T12:00:00.123456789Z stderr F [1,{}]<stderr>:", "\x1b[36mworker-{} |\x1b[0m ")  # fmt: skip


@pytest.mark.parametrize("around", PREFIXES)
@pytest.mark.parametrize("style", ["1.4", "2.8", "2.21"])
def test_interleaved_ranks(around: str, style: str) -> None:
    one = [*dump(style, FULL, 80 * MIB), *error(style, "512,40960")]
    other = [*dump(style, PIECES, 80 * MIB, allocator="GPU_1_bfc"), *error(style, "7,7", allocator="GPU_1_bfc")]
    chance = random.Random(1)
    turns = [0] * len(one) + [1] * len(other)
    chance.shuffle(turns)
    rows = [iter(one), iter(other)]
    found = read([around.format(i) + next(rows[i]) for i in turns])
    assert {f.outcome for f in found.findings} == {FailureOutcome.FULL, FailureOutcome.FRAGMENTED}
    assert all(f.dump.whole for f in found.findings)
    assert {f.dump.request.shape for f in found.findings} == {(512, 40960), (7, 7)}
    assert len({f.dump.rank for f in found.findings}) == 2


def test_threads_of_one_process_are_told_apart() -> None:
    one, other = dump("2.21", FULL, 80 * MIB), dump("2.21", PIECES, 80 * MIB, allocator="GPU_1_bfc", thread=78)
    keep = [x for pair in zip(one, other, strict=False) for x in pair if x.startswith(("I0000", "W0000"))]
    found = read(keep)
    assert {f.dump.allocator: f.dump.in_use_bytes for f in found.findings} == {
        "GPU_0_bfc": 220 * MIB, "GPU_1_bfc": 90 * MIB
    }  # fmt: skip


def test_colours_and_progress_bars() -> None:
    lines = [f"\x1b[1m\x1b[33m{row}\x1b[0m" for row in dump("2.8", FULL, 80 * MIB)]
    lines = [f"\r 1/9 [>...] loss: 0.1\r{row}" for row in lines]
    (one,) = read(lines).findings
    assert (one.outcome, one.dump.whole) == (FailureOutcome.FULL, True)


def test_what_belongs_to_a_dump_is_read_in_a_packed_log_too(tmp_path: Path) -> None:
    """However small the pieces are in which it is unpacked: lines without a word of ours are passed by the block."""
    frames = [f'  File "/venv/lib/python3.12/site-packages/keras/{i}.py", line {i}, in call' for i in range(4000)]
    lines = error("2.8", "512,40960")
    at = next(i for i, line in enumerate(lines) if "train.py" in line)
    text = "\n".join([*lines[: at + 1], *frames, *lines[at + 1 :]]).encode()
    (tmp_path / "log.gz").write_bytes(gzip.compress(text))
    packed, plain = dumps.read_log(tmp_path / "log.gz", "log"), read(text)
    assert packed.findings == plain.findings
    assert str(plain.findings[0].dump.request.place) == "train.py:41"


@pytest.mark.parametrize("turn", ["utf-16", "crlf", "gzip"])
def test_files_as_other_systems_write_them(turn: str, tmp_path: Path) -> None:
    text = "\n".join(dump("2.8", FULL, 80 * MIB))
    data = {"utf-16": text.encode("utf-16"), "crlf": text.replace("\n", "\r\n").encode(),
            "gzip": gzip.compress(text.encode())}[turn]  # fmt: skip
    file = tmp_path / "log"
    file.write_bytes(data)
    (one,) = dumps.read_log(file, "log").findings
    assert one.outcome is FailureOutcome.FULL


def test_what_docker_keeps_of_a_container() -> None:
    lines = [*dump("2.8", FULL, 80 * MIB), *error("2.8", "512,40960")]
    rows = [json.dumps({"log": f"{row}\n", "stream": "stderr"}, separators=(",", ":")) for row in lines]
    (one,) = read(rows).findings
    assert (one.outcome, one.dump.whole, one.dump.request.shape) == (FailureOutcome.FULL, True, (512, 40960))
    assert read(['{"log":"' + "[" * 60_000, *lines]).findings[0].outcome is FailureOutcome.FULL


def test_a_part_of_a_dump_is_not_none() -> None:
    lines = dump("2.8", FULL, 80 * MIB)
    (one,) = read(lines[: len(lines) // 2]).findings
    assert "the log has only a part of the allocator's dump" in one.says
    (one,) = read(error("2.8", "1024,1024")).findings
    assert "the log does not hold the allocator's dump" in one.says


@pytest.mark.parametrize("kind", ["xz", "bzip2", "gzip"])
def test_of_a_log_that_cannot_be_unpacked_nothing_is_said(kind: str, tmp_path: Path) -> None:
    """No memory ran out in what was not read; gzip is read from a file, and not from a pipe."""
    text = "\n".join(dump("2.8", FULL, 80 * MIB)).encode()
    packed = {"xz": lzma.compress(text), "bzip2": bz2.compress(text), "gzip": gzip.compress(text)}
    (tmp_path / "log").write_bytes(packed[kind])
    with (tmp_path / "log").open("rb") as file:
        pipe = SimpleNamespace(read=file.read, seekable=lambda: False)
        with pytest.raises(InputError, match=f"is compressed with {kind}; unpack it first"):
            dumps.read_log(pipe, "-")  # type: ignore[arg-type]


# -- cut, repeated, damaged


def test_a_packed_log_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    chance = random.Random(2)  # what comes behind does not pack well, so that the dump is in the first half
    tail = "".join(f"loss: {chance.random()}\n" for _ in range(20_000))
    packed = gzip.compress(("\n".join(dump("2.8", FULL, 80 * MIB)) + "\n" + tail).encode())
    (tmp_path / "log").write_bytes(packed[: len(packed) // 2])
    found = dumps.read_log(tmp_path / "log", "log")
    assert [f.outcome for f in found.findings] == [FailureOutcome.FULL]
    assert "truncated" in found.notes[-1]
    (tmp_path / "log").write_bytes(packed[:12])
    with pytest.raises(InputError, match="in these 0 lines, which end where the file was truncated"):
        dumps.read_log(tmp_path / "log", "log")


@pytest.mark.parametrize("style", STYLES)
def test_a_log_cut_anywhere_gives_no_wrong_answer(style: str) -> None:
    """Of a dump that is fragmented no part says that it was full, and none raises."""
    whole = dump(style, PIECES, 80 * MIB)
    for at in range(1, len(whole)):
        for part in (whole[at:], whole[:at]):
            try:
                found = read(part)
            except InputError:
                continue
            assert {f.outcome for f in found.findings} <= {FailureOutcome.FRAGMENTED, FailureOutcome.UNKNOWN}, part[:2]
            for one in found.findings:
                assert one.dump.largest_free_bytes in (None, 44 * MIB)


def test_the_same_again_and_again_is_one() -> None:
    found = read([*dump("2.8", FULL, 80 * MIB)] * 50)
    (one,) = found.findings
    assert (found.dumps, one.dump.repeats) == (50, 49)


def test_what_ended_in_an_error_comes_first() -> None:
    caught = dump("2.8", PIECES, 80 * MIB)
    found = read([*caught, *dump("2.8", FULL, 90 * MIB), *error("2.8", "512,40960")])
    assert [f.outcome for f in found.findings] == [FailureOutcome.FULL, FailureOutcome.FRAGMENTED]


def test_an_error_without_a_dump_says_what_is_known() -> None:
    (one,) = read(error("2.8", "1024,1024")).findings
    assert (one.outcome, one.dump.request.bytes) == (FailureOutcome.UNKNOWN, 4 * MIB)
    assert "unknown" in one.says


@pytest.mark.parametrize(
    ("text", "lines"),
    [("Epoch 1/2\nloss: 0.3\n", "these 2 lines;"), ("Epoch 1/2", "this one line;"), ("", "these 0 lines;")],
)
def test_a_log_without_anything_gets_one_clear_line(
    text: str, lines: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.log"
    file.write_text(text)
    assert main(["oom", str(file)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert f"no allocator of TensorFlow, JAX or PyTorch ran out of memory in {lines}" in said.err


def mutated(data: bytes, chance: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(chance.randrange(1, 60)):
        at = chance.randrange(len(found))
        match chance.randrange(5):
            case 0:
                found[at] = chance.randrange(256)
            case 1:
                del found[at : at + chance.randrange(1, 300)]
            case 2:
                found[at:at] = found[at : at + chance.randrange(1, 300)]
            case 3:
                found[at:at] = chance.choice([b"9" * 40, b"\n", b"\x00", b"-1", b"\x1b[", b"\r", b"e308", b"(((("])
            case _:
                end = at + chance.randrange(1, 2000)
                found[at:end] = found[at:end][::-1]
        if not found:
            return b"x"
    return bytes(found)


def test_damaged_dumps_never_raise() -> None:
    chance = random.Random(6)
    seeds = [gzip.decompress(file.read_bytes()) for file in sorted(DATA.glob("*.gz"))]
    seeds += ["\n".join([*dump(s, FULL, 80 * MIB), *error(s, "512,40960")]).encode() for s in STYLES]
    seeds += [file.read_bytes() for file in sorted((DATA.parent / "logs").glob("*.log"))]
    for i in range(400):
        data = mutated(seeds[i % len(seeds)], chance)
        try:
            found = read(data)
        except InputError:
            continue
        for one in found.findings:
            numbers = [one.dump.in_use_bytes, one.dump.free_bytes, one.dump.request.bytes]
            assert all(n is None or 0 <= n < 1 << 80 for n in numbers)
        json.loads(oom.oom_json(found))
        pages.oom_page(found)
        assert all(len(row) <= 80 for row in oom.oom_text(found).splitlines())


@pytest.mark.bench
def test_hostile_lines_take_no_time() -> None:
    rows = [
        b"I " + b"a" * 60_000, b"I a.cc:" * 9000, b"[[{{node " + b"x" * 60_000, b"\x1b[" * 30_000, b" " * 65_000,
        b"Allocator (" * 6000, b"OOM when allocating tensor with shape[" + b"1," * 30_000, b"1" * 3_000_000,
        b'File "' * 10_000, b"CUDA out of memory. Tried to allocate " + b"1" * 60_000,
        b"E0000 00:00:1.1   7 bfc_allocator.cc:1] InUse at 7f of size 1 by op " + b"a " * 30_000,
        b"CUDA out of memory. " + b"Process 1 has 1.0 GiB memory in use. " * 2000, b"Error Exhausted " * 4000,
        b"CUDA_ERROR_OUT_OF_MEMORY " * 2500, b"[[node a (defined at b" * 3000, b"Cell In [1], in <" * 3000,
        b"/home/u/a.py in " * 4000, b"killed " * 9000, b"12345 Killed " + b" " * 60_000, b"exit code " * 6000,
        b"Ran out of memory in memory space hbm. " + b"Used 1G of " * 5000, b"Attempting to reserve 1G" * 2500,
        b"Unable to allocate 1 GiB for an array with shape (" + b"1, " * 20_000, b"Caused by op '" * 4500,
    ]  # fmt: skip
    begun = time.process_time()
    for row in rows:
        reader = LogReader()
        reader.feed(b"Traceback (most recent call last)\n" + row + b"\n" + row)
        reader.close()
    assert time.process_time() - begun < 5


def test_memory_does_not_grow_with_the_log() -> None:
    import tracemalloc

    block = ("\n".join([*dump("2.8", FULL, 80 * MIB), prefix("2.8") + chunk("2.8", 9, 7, "")]) + "\n").encode()
    block *= max(LOG_BLOCK_BYTES // len(block), 1)
    reader = LogReader()
    reader.feed(block)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(2):
            reader.feed(block)
        gc.collect()  # freed tuples that the interpreter keeps for itself are not the reader's
        assert tracemalloc.get_traced_memory()[0] - before < 200_000
    finally:
        tracemalloc.stop()


# -- what is shown


def test_the_text_fits_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["oom", str(DATA / "tf221-mlp.log.gz")]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) <= 40
    assert all(len(row) <= 80 for row in rows)
    assert rows[0].startswith("the host's memory was fragmented")


def test_json_alone_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["oom", "--json", "-", str(DATA / "tf221-frag.log.gz")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["outcome"]) == ("slowtrain.oom/1", "fragmented")
    assert found["findings"][0]["largest_free_bytes"] == 34 * MIB


def test_names_in_the_page_are_harmless(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>"
    page = pages.oom_page(read([*dump("2.3", [(9 * MIB, bad), (MIB, None)], 8 * MIB, allocator=bad), bad]))
    assert bad not in page
    assert "&lt;script&gt;" in page
