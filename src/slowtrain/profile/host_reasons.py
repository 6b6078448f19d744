"""Which host spans give the reason for a device's wait, by their names and by what surrounds them.

The first matching pattern of :data:`HOST_REASONS` gives the reason. For the source marks see ``framework_names``.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from slowtrain.columns import intervals
from slowtrain.columns.arrays import NO_INTS, Bools, Codes, Floats, Ints
from slowtrain.profile import framework_names

# ---- ops that do not compute the model -------------------------------------------------------------------------

# Ops that log or save what the model computed: callbacks and summaries, on any thread.
# Names of TensorFlow's ops. [C]
SIDE_EFFECT_OPS = (
    r"Write\w{0,20}Summary|(?:Flush|Close)SummaryWriter|Create\w{0,20}SummaryWriter|SummaryWriter|ImportEvent|"
    r"(?:Scalar|Tensor|Histogram|Image|Audio|Merge)Summary(?:V2)?|WriteFile|PrintV?2?|Save(?:V2|Slices)?|"
    r"MergeV2Checkpoints|ShardedFilename|Restore(?:V2|Slice)?|LogMessage|DeleteSummaryWriter"
)
# Ops that make input from files and bytes. [C]
INPUT_OPS = (
    r"Decode(?:And\w{1,10})?(?:Jpeg|Png|Gif|Bmp|WebP|Image|Raw|PaddedRaw|CSV|Wav|Video|Compressed|JSONExample|ProtoV2)|"
    r"ExtractJpegShape|ReadFile|Reader(?:Read|ReadUpTo)(?:V2)?|MatchingFiles|ParseTensor|"
    r"Parse(?:Single|Sequence|SingleSequence)?Example(?:V2)?|DecodeWav"
)
# Ops in which the host waits for other training processes and exchanges data with them: TensorFlow's collectives,
# receives from other workers, XLA's collectives on CPUs. One process cannot separate the wait from the exchange.
# [C], two workers of TensorFlow 2.21 and of JAX 0.11
PEER_OPS = (
    r"Collective(?:Reduce|Gather|Bcast|Permute|AllToAll|ReduceScatter|Assign)\w{0,20}|_?(?:Host)?Recv|RecvTensor|"
    r"\w{0,30}Rendezvous|RpcRecvTensor|Horovod\w{1,40}|NcclAllReduce|Barrier"
)
RECEIVE_OP = r"(?:^|:)_?(?:Host)?Recv$"  # with an accelerator: receives from this process's own device
HLO_PEER_OPS = (
    r"%?(?:all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute|collective-broadcast)"
    r"(?:-start|-done)?(?:\.\d+)*|(?:\w{1,40} )?[Rr]endezvous(?:[ :].{0,200})?"
)

# Events of such ops: TensorFlow's executor and its eager calls.
PEER_OP = rf"(?:^|:|EagerLocalExecute: )(?:{PEER_OPS})$"
OTHER_OP = rf"(?:^|:|EagerLocalExecute: )(?:{SIDE_EFFECT_OPS}|{INPUT_OPS})$"

# ---- reasons by name -----------------------------------------------------------------------------------------------

# Frames of the Python tracer read "$file.py:line function" and "$module function"; the reason is that of
# the innermost such frame. [C J T], and sources of Keras 3.15 and JAX 0.8 for their own file and function names

READING_REASON, PEERS_REASON = "reading", "peers"  # reasons found only on other threads than the main one

HOST_OP_REASON = "host-op"  # the host computes an op of the graph; also found by the op's length
# XLA launches the kernels of a command buffer one by one under the profiler; an unprofiled run launches them as one
# graph. The span is the one that says so. [H]
COMMAND_BUFFER_REASON = "command-buffer"
HOST_REASONS: tuple[tuple[str, str], ...] = (
    (HOST_OP_REASON, framework_names.HOST_CALLBACK),
    (COMMAND_BUFFER_REASON, r"^WARNING: CommandBuffer disabled when profiling"),
    ("compile", (
        r"backend_compile|\w+Compiler::(?:Compile|RunBackend|RunHloPasses)|XlaCompile|compile_or_get_cached|"
        r"EagerCompile|^tf\.function-graph_building|TraceContext::Trace|FunctionDef::Optimize|MetaOptimizer|GraphConstructor|"
        r"\$(?:pjit|pxla|mlir|compiler|partial_eval|dispatch)\.py:\d+ (?:_create_pjit_jaxpr|trace_to_jaxpr\w*|"
        r"lower\w*|_?compile\w*|_cached_lower\w*|backend_compile\w*|compile_or_get_cached)|"
        r"\$(?:function_type_utils|func_graph|tracing_compilation|concrete_function)\.py:\d+ "
        r"\w*(?:trace|func_graph_from)\w*")),
    ("input", (
        r"Iterator(?:GetNext|GetNextAsOptional|GetNextSync)?Op::DoCompute|IteratorGetNext(?:AsOptional)?Op::DoCompute|"
        r"MultiDeviceIteratorGetNextFromShard|^Iterator::|EagerLocalExecute: (?:IteratorGetNext|OptionalFromValue)|"
        r"\$\w+\.py:\d+ (?:__next__|_next_internal|get_next|_?get_iterator|get_jax_iterator|get_numpy_iterator|"
        r"enumerate_epoch|next_batch)|\$builtins next\b")),
    ("sync", (
        r"(?:cu(?:da)?|hip)(?:Stream|Event|Device|Ctx)Synchronize|BlockHostUntil(?:Done|Ready)|BlockUntilReady|"
        r"PjRt\w*Buffer::(?:Await|ToLiteral)|\w*::ToLiteral(?:Sync)?\b|TransferFromDevice\b|"
        r"^np\.asarray\(jax\.Array\)|"
        r"\$array\.py:\d+ (?:_value|__array__|__float__|__int__|__bool__|item|block_until_ready)|block_until_ready|"
        r"\$\w+\.py:\d+ (?:numpy|_numpy|convert_to_numpy)$|TFE_TensorHandleResolve")),
    ("convert", (  # NumPy or Python values becoming tensors or arrays of the device [C H J]
        r"^(?:convert_to_tensor|tf\.constant)$|BufferFromHost|batched_device_put|LinearizeHostBuffer|^DevicePut$|"
        r"\$\w+\.py:\d+ (?:device_put|_batched_device_put_impl|shard_device_array)")),
    ("d2h", r"(?i)^(?:cu(?:da)?|hip)?mem(?:cpy)?D(?:to|2)H|CopyGPUTensorToCPU|GPU to CPU"),
    ("h2d", (
        r"(?i)^(?:cu(?:da)?|hip)?mem(?:cpy)?H(?:to|2)D|CopyCPUTensorToGPU|CPU to GPU|TransferToDevice|"
        r"H2D Dispatch|CopyRawHostToDevice")),
    ("allocation", r"(?:cu(?:da)?|hip)(?:Mem)?(?:Malloc|Alloc|Free)\w*|BFCAllocator"),
    ("callback", (rf"(?:^|:|EagerLocalExecute: )(?:{SIDE_EFFECT_OPS})$|"
        r"\$\w+\.py:\d+ on_(?:train_|test_|predict_)?(?:batch|epoch|begin|end)\w*|CallbackList")),
    (READING_REASON, rf"(?:^|:|EagerLocalExecute: )(?:{INPUT_OPS})$"),
    (PEERS_REASON, PEER_OP),
    ("eager", (
        r"^EagerLocalExecute: (?!__inference_|__forward_|__backward_|OptionalHasValue$|OptionalGetValue$)|"
        r"TFE_Py_FastPathExecute_C")),
    ("dispatch", (
        r"^ExecutorState::Process|^FunctionRun|^ExecutorPropagateOutputs|KernelLaunch|"
        r"(?:cu(?:da)?|hip(?:Ext)?(?:Module)?)(?:Launch|GraphLaunch)\w*|PjitFunction\(|PJRT_LoadedExecutable_Execute|"
        r"(?:PjRt|Tfrt)\w*LoadedExecutable::Execute|ExecuteReplicated|ThunkExecutor::Execute|GpuExecutable::|"
        r"^EagerExecute|EagerLocalExecute: (?:__|Optional)|KernelAndDeviceFunc::Run|CpuExecutable::Execute")),
    ("python", r"^\$"),
    # PjRt's pool waits for a buffer, inside block_until_ready or a copy to the host. The script waits too if it is in
    # no other span. An array's own block_until_ready() has no frame. [J]
    ("awaited", r"^BufferSequencingEvent::Execute$"),
)  # fmt: skip


REASONS = tuple(reason for reason, _ in HOST_REASONS)


@lru_cache(maxsize=1 << 16)
def host_reason(name: str) -> str | None:
    """Return the reason that a host span of this name gives for a device's wait; None if it gives none."""
    return next((reason for reason, pattern in HOST_REASONS if re.search(pattern, name)), None)


def reason_index(text: str, *, devices: bool) -> int:
    """Return the index of a name's reason, -1 for none."""
    reason = host_reason(text)
    if devices and re.search(RECEIVE_OP, text):
        return -1
    return REASONS.index(reason) if reason else -1


def host_computed_ops(start: Floats, end: Floats, code: Codes, texts: tuple[str, ...], launched: Floats) -> Ints:
    """Return the graph ops that the host itself computed next to a device: long ones in which nothing was launched."""
    ops = [
        is_graph_op(text) and is_model_op(text) and not re.search(framework_names.WAITING_OP, text.rpartition(":")[2])
        for text in texts
    ]
    rows = np.flatnonzero(np.array(ops, dtype=bool)[code] & (end - start >= framework_names.MIN_HOST_OP_MS))
    calls = np.sort(launched)
    none = np.searchsorted(calls, start[rows]) == np.searchsorted(calls, end[rows], side="right")
    return np.asarray(rows[none])


def frames_begun_before(start: Floats, code: Codes, texts: tuple[str, ...]) -> Ints:
    """Return Python frames that began before the tracer, which gives them its own start.

    Where such frames came from is unknown. A generator that is resumed leaves one in every step.
    """
    rows = np.flatnonzero(np.array([t.startswith(framework_names.PYTHON_CALL) for t in texts], dtype=bool)[code])
    first = rows[start[rows] == start[rows].min(initial=np.inf)]
    return first if len(first) > 1 else NO_INTS


def mark_compiling_calls(start: Floats, end: Floats, code: Codes, texts: tuple[str, ...], reason: Codes) -> None:
    """Mark JAX calls in which something is compiled as tracing and lowering from start to end."""
    compiling = REASONS.index("compile")
    calls = np.flatnonzero(np.array([t.startswith(framework_names.PJIT_CALL) for t in texts], dtype=bool)[code])
    mine = reason == compiling
    if len(calls) and mine.any():
        inside = intervals.covered_length(intervals.union(start[mine], end[mine]), start[calls], end[calls])
        reason[calls[inside > 0]] = compiling


def mark_loop_ops(start: Floats, end: Floats, code: Codes, texts: tuple[str, ...], reason: Codes) -> None:
    """Mark the whole call of an op of Keras' own loop as dispatch, because the user did not ask for its value."""
    wanted = {f"{framework_names.EAGER_LOCAL}{op}" for op in framework_names.LOOP_OPS}
    ops = np.flatnonzero(np.array([t in wanted for t in texts], dtype=bool)[code])
    calls = np.flatnonzero(matches_text(texts, code, framework_names.EAGER_FAST_PATH))
    if len(ops) and len(calls):
        around = calls[np.maximum(np.searchsorted(start[calls], start[ops], side="right") - 1, 0)]
        around = around[end[around] >= end[ops]]
        inside = intervals.covered_length(intervals.union(start[around], end[around]), start, end) >= end - start
        reason[inside & (reason >= 0)] = REASONS.index("dispatch")


def matches_text(texts: tuple[str, ...], code: Codes, text: str) -> Bools:
    return code == texts.index(text) if text in texts else np.zeros(len(code), dtype=bool)


def is_graph_op(text: str) -> bool:
    found = framework_names.graph_op(text)
    return found is not None and found[1] not in framework_names.CALLER_OPS


@lru_cache(maxsize=1 << 16)
def is_model_op(event: str) -> bool:
    """Return whether an op computes the model: not a summary, a save, decoding, or a wait for other processes."""
    return not re.search(OTHER_OP, event) and not waits_for_peers(event)


@lru_cache(maxsize=1 << 16)
def waits_for_peers(event: str) -> bool:
    """Return whether the op waits on the host for other training processes."""
    return bool(re.search(PEER_OP, event) or re.fullmatch(HLO_PEER_OPS, event))
