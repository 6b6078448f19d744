"""Names and conventions of the frameworks that the profile reader relies on, each with its source.

Sources, by the mark at the end of a comment:
  [S] openxla/xla xla/tsl/profiler/utils/xplane_schema.cc, the writers' and xprof's own table
  [O] openxla/xla xla/tsl/profiler/utils/tf_op_utils.cc, how a name becomes op name and type
  [C] seen in profiles recorded on a CPU with TensorFlow 2.21.0 and 2.15.1 (Keras fit, custom loop, eager loop)
  [U] openxla/xla xla/backends/profiler/gpu/cupti_*.cc, what writes a GPU's events
  [V] seen in tf-v100-bert (TensorFlow 2.5, V100)   [J] in jax-mi300x (JAX 0.8)   [T] in tpu-inference
  [H] seen in profiles of an H100 (JAX 0.11.2, Keras 3.15.1), tests/trace/recorded/gpu-*
"""

from __future__ import annotations

import re
from functools import lru_cache

# A pattern is text, which `re` compiles when it is first used: most runs need few of them.

# ---- planes ---------------------------------------------------------------------------------------------------

HOST_PLANE = "/host:CPU"  # the host's threads with their TraceMe spans [S C V J T]
METADATA_PLANE = "/host:metadata"  # HLO protos; no lines [S C J T]
TASK_PLANE = "Task Environment"  # facts of the session, see PROFILE_START; since TensorFlow 2.13 or so [S C J T]
GPU_PLANE = "/device:GPU:"  # + ordinal [S V J]
TPU_PLANE = "/device:TPU:"  # + ordinal, perhaps + " SparseCore n" [S T]
CUSTOM_PLANE = "/device:CUSTOM:"  # other accelerators [S]
DEVICE_PLANES = (GPU_PLANE, TPU_PLANE, CUSTOM_PLANE)

# ---- lines of a device plane ----------------------------------------------------------------------------------

STREAM_LINE = r"Stream #(\d+)(?:\((.*)\))?"  # "Stream #134(Compute)", "Stream #16(Kernel)" [V J]
STEPS_LINE = "Steps"  # [S V]
MODULES_LINE = "XLA Modules"  # one event an XLA program run [S T]
XLA_OPS_LINE = "XLA Ops"  # [S T]
XLA_ASYNC_LINE = "Async XLA Ops"  # overlaps "XLA Ops" [S T]
OPS_LINES = ("TensorFlow Ops", "Framework Ops")  # old and new name [V; S]
SCOPE_LINES = ("TensorFlow Name Scope", "Framework Name Scope")  # old and new name [V; S]
LAUNCH_LINE = "Launch Stats"  # [S]
SOURCE_LINE = "Source code"  # [S]
# Lines derived from the streams by a tool. Counting both would count every kernel twice. [S V T]
DERIVED_LINES = frozenset(
    {STEPS_LINE, MODULES_LINE, XLA_OPS_LINE, XLA_ASYNC_LINE, *OPS_LINES, *SCOPE_LINES, LAUNCH_LINE, SOURCE_LINE}
)

# ---- lines (threads) of the host plane; the part before "/", followed by the thread's id -------------------------

# The process's name or the thread's; on macOS and Windows there may be the thread's id alone. [C V J T]
PYTHON_THREAD = r"(?:i?python[\d.]*w?(?:\.exe)?|Python|main|MainThread)(?:/.*)?"
FRAMEWORK_THREADS = ("tf_", "grpc", "pjrt_")  # the frameworks' thread pools [C V H]
# Pools with one thread for each usable processor, unless configured otherwise. [C]
POOL_THREADS = ("tf_Compute", "tf_data_private_threadpool", "tf_numa_", "tf_XLAEigen", "tf_XLAPjRtCpuClient")
INPUT_THREADS = ("tf_data_",)  # tf_data_iterator_resource, tf_data_private_threadpool, … [C V]
GET_NEXT_THREADS = ("tf_data_iterator_get_next",)  # waits for the next batch in a graph function [C V]

# ---- TraceMe spans of the host --------------------------------------------------------------------------------

# A span with the stats STEP_NUM and (since 2.15) IS_ROOT is a step, whatever its name. [S C]
KERAS_FUNCTIONS = frozenset({  # Keras's own tf.function, one call a step or an execution of several; with tracing_count
    "multi_step_on_iterator",  # Keras 3.8 on (TensorFlow 2.18 to 2.21) [C]
    "one_step_on_iterator", "one_step_on_data",  # Keras 3 before
    "train_function",  # Keras 2 [C]
    "distributed_function",  # Keras in TensorFlow 2.0 and 2.1, its training_v2_utils.py
})  # fmt: skip

# Graph functions.
FUNCTION_RUN = "FunctionRun"  # starts a function's executors asynchronously, so it is shorter than the function [S C]
EXECUTOR_SPAN = "ExecutorState::Process"  # one thread's share of a graph run: its ops and the time between them [S C]
EXECUTOR_DONE = "ExecutorDoneCallback"  # [S C]
ASYNC_START = "ExecutorState::ProcessAsync::Start"  # stats name, kernel_type; its end is not the op's end [C 2.15 on]

# Eager ops, from outside to inside; all on the caller's thread. [C]
EAGER_FAST_PATH = "TFE_Py_FastPathExecute_C"  # Python's call of one op, including the conversion of its arguments
EAGER_EXECUTE = "EagerExecute"  # stats eager_op, is_func
EAGER_LOCAL = "EagerLocalExecute: "  # + op type, or the function's name
EAGER_CALL = "EagerExecute: "  # + op type, or the function's name; the only event of a call before about TensorFlow 2.4
EAGER_CALLS = (EAGER_LOCAL, EAGER_CALL)
EAGER_RUN = "KernelAndDeviceFunc::Run"  # the op's kernel; of a function: until its graph has finished
FUNCTION_PREFIXES = ("__inference_", "__forward_", "__backward_")  # names of tf.functions, after EAGER_LOCAL
# Keras runs these ops in each iteration of its loop to check for another batch; they are not the user's. [C H]
LOOP_OPS = frozenset({"OptionalHasValue", "OptionalGetValue"})

# XLA on the CPU. [C 2.21]
XLA_CPU_REST = "ThunkExecutor::Execute (wait for completion)"  # shards of its ops compute, without events [C JAX 0.10]

# tf.data. [S C V]
GET_NEXT_OPS = frozenset({"IteratorGetNextOp::DoCompute", "IteratorGetNextAsOptionalOp::DoCompute"})
# + path of stages from the root, "Iterator::Root::Prefetch::…::Shuffle"; outer contains inner.
ITERATOR_PREFIX = "Iterator::"
ITERATOR_MAKING = r"^EagerLocalExecute: MakeIterator$"  # Python starts to iterate a data set [C H]
MAKE_ITERATOR = "MakeIterator::"  # + op type of a data set whose iteration starts, nested ones too [C 2.21]
ITERATOR_NEXT_FUNCTION = "InstantiatedCapturedFunction::"  # the user's function in map, filter, …
# Stages whose index counts elements or epochs; in others (Zip, Concatenate) it distinguishes inputs. [C]
COUNTING_STAGE = r"((?:Interleave|FlatMap|Repeat|Window)\w{0,20})\[\d+\]"
EPOCH_STAGE = r"Repeat\w{0,20}\[(\d{1,9})\]"
MULTI_DEVICE = "MultiDeviceIterator"  # in op names: a device's data set that only copies from the one on the host [V]
PRODUCE_SUFFIX, CONSUME_SUFFIX = "Produce", "Consume"  # PrefetchProduce, MapAndBatchConsume …, flows by element_id

# Memory: instant events with the allocator's stats. [S C V J]
ALLOCATION_EVENT, DEALLOCATION_EVENT = "MemoryAllocation", "MemoryDeallocation"

# JAX. [J T]
PJIT_CALL = "PjitFunction("  # + the function's name and ")"
JAX_TRAINING = frozenset({"train_step", "one_train_step", "train_function"})  # Keras's on JAX [C], people's
PYTHON_CALL = "$"  # a frame of the Python tracer: "$file.py:29 function"
PYTHON_FRAME = r"\$([^:]+\.py):(\d+) (.*)"  # of a function that is not built in
# Frames in which a thread waits for another thread, whose work is the reason. [C, CPython's own names]
WAITING_FRAME = (
    r"\$(?:threading\.py:\d+ (?:wait\w*|join|_wait_for_tstate_lock|__enter__|acquire)|queue\.py:\d+ (?:get|put)|"
    r"_base\.py:\d+ result|connection\.py:\d+ (?:recv\w*|poll|_poll|wait)|selectors\.py:\d+ select|"
    r"(?:<unknown>|\w+) (?:acquire|wait|select|poll|sleep))\b"
)
# Keras files between a step and the user's data. The first group calls the user's code. [C, source of Keras 3.15]
DATA_ADAPTER = r"\$(?:py_dataset|generator_data|torch_data_loader|grain_dataset)_adapter\.py:"
KERAS_DATA = (
    r"\$(?:\w+_adapter|data_adapter\w*|epoch_iterator|trainer|tree_api|optree_impl|ops|core|tensor_shape|threading|queue)"
    r"\.py:"
)

# Functions in which Keras' loop on JAX copies each batch to the device. [C, source of Keras 3.15]
KERAS_FEEDS = r"\$trainer\.py:\d+ (?:_distribute_data|_one_batch_ahead_iterator|_get_distributed_iterator)"

# A compiled program's call of Python: arguments are copied to the host, results back to the device. [H]
HOST_CALLBACK = r"^(?:pure_callback|io_callback|debug_callback|xla(?:_ffi)?_python_\w{0,20}callback)(?:[._]\d+)?$"
# A call of a program, and the part of it that launches kernels. Before that part it waits for its arguments. [H]
PJRT_CALL = r"^\[\d+\] PjRt\w*::Execute$"
PJRT_LAUNCHING = r"^\[\d+\] GpuExecutable::ExecuteThunks$"
PJRT_CALLBACK = "ThenExecuteCallback"  # + ":" and the callback that a stream runs; not an op [H]
PJRT_POOL = "pjrt_async_work_runner"  # threads that, among other things, copy arguments [H]

# ---- kinds of copies, on streams and as host calls [S O V J] ----------------------------------------------------

COPY_NAME = (
    r"(?i)^(?:mem(?:cpy)?|um_bytes_transfer_)(?P<kind>h(?:to|2)d|d(?:to|2)h|d(?:to|2)d|h(?:to|2)h|p(?:to|2)p|other)|"
    r"__amd_rocclr_copyBuffer"
)  # um_: pages of unified memory; other: to and from arrays [U]
MEMSET_NAME = r"(?i)^memset|__amd_rocclr_fillBuffer"
# Events among a stream's kernels that are not device work: lifetimes of memory, faults and
# marks of unified memory, the profiler's own overhead (which also gives a line its name). [U]
NO_WORK = (
    r"Memory (?:array|device(?:_static)?|managed(?:_static)?|pageable|pinned|unknown)|UM_(?!BYTES_TRANSFER_)\w+|"
    r"COMPILER|BUFFER_FLUSH|INSTRUMENTATION|RESOURCE|<UNKNOWN>"
)
OVERHEAD_LINE = "CUPTI overhead"
COLLECTIVE_NAME = r"(?i)nccl|rccl|all-?reduce|all-?gather|reduce-?scatter|all-?to-?all"

# ---- statistics -----------------------------------------------------------------------------------------------

STEP_NUM = "step_num"  # [S C]
GROUP_ID = "group_id"  # a step's number, added by xprof's grouping: raw files lack it [S V]
IS_ROOT = "_r"  # [S C]
TRACING_COUNT, FUNCTION_CALL = "tracing_count", "tf_function_call"  # number of traces so far [S C]
TRACED_PREFIX = "traced"  # FUNCTION_CALL of a call that traced: "traced-nonXla"; others "notTraced-…", "concrete" [S C]
ELEMENT_ID, PARENT_ID, NODE_ID = "element_id", "parent_id", "id"  # of tf.data; parent_id is the outer stage's id [S C]
NODE_NAME = "name"  # of a tf.data stage in the (optimised) graph, "fused(MapDataset:2,BatchDatasetV2:3)" [C]
DATASET_NODE = r"\b(\w{1,60}?Dataset)(?:V\d+)?:\d+"  # of NODE_NAME, each of those in "fused(…,…)" [C]
ELEMENT_SHAPE = r"\[([^\]\[]{0,200})\]|<unknown>"  # of "shapes" [C]
# Facts of a tf.data stage: shapes and types of elements ("[?,64,64,3] [?]", "float int64"), settings; of the root the
# processors that tf.data tunes itself for and the threads of its pool; of GET_NEXT the batch's bytes.
STAGE_FACTS = (NODE_NAME, "shapes", "types", "parallelism", "autotune", "batch_size", "buffer_limit",
               "buffered_bytes_MB", "cpu_budget", "threadpool_size", "element_size")  # [C]  # fmt: skip
CORRELATION_ID = "correlation_id"  # host call to device activity [S V J]
MEMCPY_DETAILS = "memcpy_details"  # "size:6144 dest:4 async:1"; bytes, device [S V J]
# Since about TensorFlow 2.6: "kind_src:pageable kind_dst:device size:…". AMD's has no kind and no size. [U J]
COPY_SIZE, HOST_MEMORY = r"size:(\d+)", r"kind_(?:src|dst):(pageable|pinned)\b"
TF_OP = "tf_op"  # "scope/name:Type" [S J]
ANNOTATION_STAT = "annotation"  # of a kernel: "scope/name:Type#shape=(half[4,1];…)#", innermost last after "::" [V]
ANNOTATED_SHAPES = r"#shape=\(([^)#]*)\)#"  # of an op's inputs, in its annotation
GRAPH_EDGE = r"#edge_name=edge_\d+_([^#]*)#"  # of a copy: between ops of one graph on two devices; + op [V]
NO_OP = frozenset({"", "XlaModule:", "MakeTensorFromProto"})  # values of an op's name that name no op [V J]
HLO_OP, HLO_MODULE, PROGRAM_ID = "hlo_op", "hlo_module", "program_id"  # [S C J]
COMMAND_BUFFER = r"command_buffer(?:_\d+)?"  # HLO_OP of all kernels in a command buffer, not the op [H]
HLO_PROTO = "Hlo Proto"  # of an event's metadata in METADATA_PLANE: a complete program, xla.HloProto [S C J H]
PROGRAM_NAME = r".*\((\d{1,19})\)"  # of that metadata: "jit_train_step(4647)", PROGRAM_ID in brackets [H]
# Ops of a TPU program, or of one with offloading, that wait for another op and compute nothing. [T]
XLA_WAIT = r"^%?(?:copy|send|recv|async|slice|collective-permute)-done"
DEVICE_NAME = "gpu_device_name"  # [S]
DEVICE_ALLOCATOR = r"GPU_\d+_bfc"  # allocator_name of memory on a GPU [V J]
GRAPH_LAUNCH = r"(?:cu(?:da)?|hip)GraphLaunch"  # [S]
GRAPH_RUN = r"CudaGraphExec:\d+"  # a whole graph as one activity, if the profiler was configured so [U]
DROPPED_STAT = "dropped_traces"  # [S]
DROPPED_WARNING = r"(\d+) events dropped"  # "Detected GPU events dropped on …: … 7 events dropped because" [U]
# Errors that the profiler of GPUs notes in the file. [U]
CUPTI_NOT_PERMITTED, CUPTI_NOT_FOUND = "Insufficient privilege to run libcupti", "Failed to load libcupti"
PROFILE_START, PROFILE_STOP = "profile_start_time", "profile_stop_time"  # ns since 1970, of TASK_PLANE [S C J T]
DEVICE_FACTS = ("clock_rate", "core_count", "memory_bandwidth", "memory_size", "compute_cap_major",
                "compute_cap_minor", "device_vendor", "device_type_string", "gpu_device_name",
                "peak_teraflops_per_second",
                "peak_hbm_bw_gigabytes_per_second")  # kHz, -, B/s, B, … [S V T]  # fmt: skip

# ---- precision of a kernel by its name; the first matching pattern counts ----------------------------------------
# A file may hold any name, so that no pattern may backtrack far.
# cuBLAS, cuDNN, CUTLASS: letters of GEMM types (s single, d double, h half, i integer) and tensor-core shapes
# (884 Volta, 1688 and 16816 later); rocBLAS/Tensile: Cijk_…_HBH, BBS, SB after the layout.

KERNEL_PRECISION = (
    ("float8", r"e4m3|e5m2|_f8|qgmma|nvjet(?:_sm\d+)?_qq"),
    ("bfloat16", r"bf16|bfloat16|Cijk_\w{1,40}?_B[BS]S?_|nvjet(?:_sm\d+)?_t[st][st]_"),
    (
        "float16",
        (
            r"s884|h884|h1688|h16816|s16816|fp16|f16f16|_f16_|hgemm|[_<\d]half|Eigen::half|hmma_fp(?:16|32)|"
            r"nvjet(?:_sm\d+)?_h[hs][hs]_|Cijk_\w{1,40}?_H[HBS]?[HS]?_"
        ),
    ),
    ("tf32", r"tf32|tfloat32|s1688gemm"),
    ("float64", r"dgemm|d884|f64|<double|Cijk_\w{1,40}?_DB?_"),
    ("int8", r"imma|i8816|igemm(?!_(?:fwd|bwd|wrw)_)|int8"),
    ("float32", r"sgemm|scudnn|ffma|f32f32|<float|_f32|fp32|IfLi\d|Cijk_\w{1,40}?_SB?_"),
)
TENSOR_CORE = (
    r"[hsid]?(?:884|1688|16816|8816)(?:gemm|cudnn|fprop|dgrad|wgrad|_)|hmma|imma|gmma|tensorop|TensorOp|nvjet|"
    r"^(?=.*xmma)(?!.*(?:ffma|f32f32_f32f32))|_MI\d+x"
)

# Matrix products, convolutions and attention, which tensor cores can compute; not cuDNN's other kernels (cudnn::bn_…,
# cudnn::ops::…), nor conversions. [O V J], cuDNN's and CUTLASS's names in TensorBoard's published kernel_stats files
MATRIX_KERNEL = (
    r"(?i)gemm|[a-z\d]cudnn_|cutlass|conv(?!er)|wgrad|dgrad|fprop|gemv|Cijk_|xmma|nvjet|dot_general|winograd|fmha|sdpa"
)
XLA_MATRIX_KERNEL = r"gemm_fusion|__?triton_gemm"  # XLA's own, on tensor cores where the format has any [H]
# The memory-bound ones of these: matrix times vector, one filter for each channel.
STREAMED_MATRIX_KERNEL = r"(?i)gemv|depthwise|grouped_direct"
KERNEL_ALIGNMENT = r"_align(\d+)"  # elements that a CUTLASS kernel reads at once: "…_nhwc_align4"

# Kernels that pass over memory once for each op: Eigen's, TensorFlow's, and those that TensorFlow's build generates
# ("Mul_GPU_DT_FLOAT_DT_FLOAT_kernel"). XLA's are fusions. [V], TensorBoard's published kernel_stats files
ELEMENTWISE_KERNEL = (
    r"^(?=.*EigenMetaKernel)(?!.*(?:Reduction|Reducer|Contraction|Convolution))|_GPU_DT_\w{1,80}_kernel|"
    r"FillPhiloxRandomKernel|Bias(?:NHWC|NCHW)Kernel|(?:Relu|Elu|Selu|Gelu|Softplus)Grad\w{0,40}Kernel"
)

# cuDNN's recurrent layers: "RNN_blockPersist_fp_LSTM", "LSTM_elementWise_fp", "elemWiseRNNcell", "persistRNN…".
FUSED_RNN_KERNEL = r"RNN_blockPersist|(?:LSTM|GRU)_elementWise|elemWiseRNN|persistRNN|(?i:cudnnrnn)"


def kernel_precision(name: str) -> str | None:
    """Return the number format that a device kernel works in, as far as its name shows it; else None."""
    return next((precision for precision, pattern in KERNEL_PRECISION if re.search(pattern, name)), None)


# ---- ops ------------------------------------------------------------------------------------------------------

_OP_EVENT = r"([A-Za-z0-9.][A-Za-z0-9_./>-]*):([A-Z_][A-Za-z0-9_]*)"  # IsTfOpName and IsTfOpType of [O]

# Ops that occur in training steps only: gradients and their application. [C]
GRADIENT_OP = r"Grad\b|Backprop|^(?:Resource\w*)?Apply|^ResourceSparseApply|^Assign(?:Sub|Add)VariableOp$"

# Ops that read and write each element once. Types as graphs and kernels' op names give them. [C V]
ELEMENTWISE_OPS = frozenset(
    "Abs Add AddN AddV2 AddV3 BiasAdd BitwiseAnd Cast Ceil ClipByValue Cos Div DivNoNan Elu EluGrad Equal Erf Exp "
    "Expm1 Floor FloorDiv FloorMod Greater GreaterEqual Inv InvGrad LeakyRelu LeakyReluGrad Less LessEqual Log "
    "Log1p LogicalAnd LogicalNot LogicalOr Maximum Minimum Mul MulNoNan Neg NotEqual OnesLike Pow "
    "RandomStandardNormal RandomUniform RealDiv Reciprocal Relu Relu6 Relu6Grad ReluGrad Round Rsqrt RsqrtGrad "
    "Select SelectV2 Selu SeluGrad Sigmoid SigmoidGrad Sign Sin Softplus SoftplusGrad Softsign Sqrt SqrtGrad "
    "Square SquaredDifference StatelessRandomUniformV2 StatelessRandomNormalV2 Sub Tan Tanh TanhGrad "
    "TruncatedNormal Xdivy Xlogy ZerosLike".split()
)

RANDOM_OP = r"Random|TruncatedNormal|Multinomial"  # draws random numbers [C]
# Matrix products and convolutions, including MKL's and fused ones. [C]
MATMUL_OP = r"(?:_Mkl(?:Native)?(?:Fused)?)?(?:_Fused)?(?:Batch)?MatMul|_MklNativeFusedMatMul|Einsum"
CONV_OP = r"(?:_Mkl(?:Native)?(?:Fused)?|_Fused)?(?:Depthwise)?Conv\dD|.*Conv\w*Backprop"
PRODUCT_PATTERNS = (MATMUL_OP, CONV_OP, r"matmul")  # the last one is for the op's name of `x @ w`
UPDATE_OP = r"Resource(?:Sparse)?Apply|ResourceScatter|Assign(?:Add|Sub)VariableOp"
# Name scopes of optimizers: the class name in lower case (Keras 3) or unchanged (Keras 2).
OPTIMIZER_SCOPE = (
    r"(?i)(?:^|/)(?:loss_scale_)?(?:sgd|adam|adam_?w|adamax|nadam|rm_?sprop|adagrad|adadelta|adafactor|ftrl|lion|lamb|muon|optimizer)"
    r"(?:_\d+)?/"
)
# Prefixes that functions and gradients add to a scope.
SCOPE_PREFIX = r"^(?:(?:Stateful)?PartitionedCall(?:_\d+)?/|gradient_tape/|loop_body/)+"
# Prefix of an op that TensorFlow's graph optimizer fused with later ops, or replaced by oneDNN's. [C]
FUSED_OP = r"_(?:Mkl)?(?:Native)?(?:Fused)?(?=[A-Z])"
# Ops with at least two matrix operands, and ops whose result is bool. [V]
PRODUCT_OPS = frozenset("MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 _FusedMatMul".split())
COMPARING_OPS = frozenset("Equal NotEqual Greater GreaterEqual Less LessEqual LogicalAnd LogicalNot LogicalOr".split())

# Ops that only call other ops, whose time they include. [C]
CALLER_OPS = frozenset(
    "PartitionedCall StatefulPartitionedCall If StatelessIf While StatelessWhile Case StatelessCase RemoteCall "
    "MapDefun SymbolicGradient IteratorGetNext IteratorGetNextAsOptional IteratorGetNextSync".split()
)


# An executor's op during which its thread launches nothing is host work if it takes longer than passing an op
# to a device. On a V100 (BERT) that takes 2 to 8 µs, and 63 µs for a collective, which waits for other devices.
MIN_HOST_OP_MS = 0.05
WAITING_OP = r"Recv|Send|Collective|Nccl|Iterator|Optional|Queue|Barrier|Stage|Assert|^_Arg$|^_Retval$"

# ---- scopes and types of ops that identify a cause ------------------------------------------------------------------

NAME_NUMBER = r"_\d+$"  # suffix that distinguishes ops of the same name in a graph [C V]
# Keras's cells, in a loop ("m/lstm_1/while/body/_33/m/lstm_1/while/lstm_cell_1/MatMul") and unrolled
# ("m/lstm_1/lstm_cell_7/MatMul"), forward and in gradients; TensorFlow 2.21 with Keras 3.15. [C]
CELL_SCOPE = r"(?:^|/)([^/]+)/(?:while/)?(?:lstm|gru)_cell(?:_\d+)?/"
PRODUCT_SCOPE = r"/(?:Conv\dD|MatMul|einsum|Einsum)(?:_\d+)?(?:/.*)?$"  # of a product's gradient [C V H]
RANDOM_SCOPE = r"/(?:random_uniform|random_normal|stateless_random\w*)$"  # below its layer's [C V]
# "scope/ArithmeticOptimizer/ReplaceMulWithSquare_mul_3" was "scope/mul_3" before grappler (OptimizedNodeName) [C]
REWRITTEN_SCOPE = r"ArithmeticOptimizer/[A-Za-z0-9]+_"
DENSIFY_OP = "UnsortedSegmentSum"  # turns a sparse gradient (IndexedSlices) into a dense one [C]
# Ops in every graph that carry batches, arguments and results between host and device. [C V]
PLUMBING_OP = r"Iterator|Optional|RemoteCall|LoopCond|Switch|(?:^|/)(?:arg|ret|memtype|Identity|args|inputs)_?\d*$"


@lru_cache(maxsize=1 << 16)
def graph_op(event: str) -> tuple[str, str] | None:
    """Return op name and type of an executor's event for an op's kernel, such as "scope/dense/MatMul:_MklMatMul".

    At host_tracer_level 2 only the ops that TensorFlow counts as expensive are written; at 3 all ops (up to 2.15;
    TensorFlow 2.21 ignores the option and always records level 2). Asynchronous kernels write ASYNC_START. [C]
    """
    found = re.fullmatch(_OP_EVENT, event)
    return (found[1], found[2]) if found and found[1] != PJRT_CALLBACK else None


def eager_op(event: str) -> str | None:
    """Return the op type of an EAGER_LOCAL event; None for a function's call and for other events."""
    kind = event.removeprefix(EAGER_LOCAL)
    return None if kind == event or kind.startswith(FUNCTION_PREFIXES) else kind
