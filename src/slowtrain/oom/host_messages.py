"""Messages about host memory, killed processes, and libraries that failed for want of memory."""

from __future__ import annotations

import re

from slowtrain.oom.dump_builder import KERNEL_NAME, DumpBuilder
from slowtrain.oom.log_text import SIZE, decode_name, parse_dimensions, parse_size, tensor_bytes
from slowtrain.shared.exhaustion import FailureKind, PoolKind

# TensorFlow logs this warning for a large host allocation and continues.
LARGE_ALLOCATION = re.compile(rb"Allocation of (\d{1,19}) exceeds \d{1,3}% of (?:free )?system memory")
MIN_PYTHON_BYTES = 4 << 20  # an interpreter without any module uses twice as much
CONTAINER_LIMIT, SLURM_LIMIT = "the container's limit", "Slurm's limit"
SHARED_MEMORY = "the shared memory of the data loader's workers"
_KERNEL = re.compile(
    rb"(Memory cgroup out of memory|[Oo]ut of memory|oom-kill|\bKilled process)[.:]? ?(?:Kill(?:ed)? process )?"
    rb"\d{1,10}(?:, UID \d{1,10},)? \(([^)]{1,100})\)"
    rb"(?:.{0,300}?anon-rss:(\d{1,15})kB)?"
)
_CGROUP_LIMIT = re.compile(rb"memory: usage \d{1,15}kB, limit (\d{1,15})kB")
_OOM_KILL = re.compile(rb"oom-kill:constraint=(CONSTRAINT_\w{1,20})|invoked oom-killer")
_SLURM = re.compile(
    rb"[Dd]etected \d{1,9} oom[-_]kill event|[Ee]xceeded (?:job|step) memory limit|task \d[\d,-]{0,30}: Out Of Memory"
    rb"|exceeded (?:\w{1,20} )?memory limit.{0,60}being killed|State[=:]\s{0,8}OUT_OF_MEMORY"
)
_CONTAINER = re.compile(rb"low on resource: memory|\bOOMKilled\b(?!\"?[:=] ?(?:false|False))")
_NOTEBOOK = re.compile(rb"tried to allocate more memory than is available|after using all available RAM")
_RAY = re.compile(rb"killed due to the node running low on memory")
_LIMITS = (
    (_SLURM, SLURM_LIMIT),
    (_CONTAINER, CONTAINER_LIMIT),
    (_NOTEBOOK, "the notebook's limit"),
    (_RAY, "Ray's memory monitor"),
)
_SHELL = re.compile(
    rb"(?:\S{1,300}: line \d{1,9}: +\d{1,10} |\[\d{1,4}\]\s{1,4}[+-]?\s{1,4}(?:\d{1,10} )?|zsh: |\(?\d{1,10}\)? )?"
    rb"[Kk]illed(?:: 9)?(?:\s{2,}.{0,2000}|\s+python.{0,2000}|\s*)\Z"
)
_SIGNAL = re.compile(
    rb"\b[Ee]xit(?:ed with)?[ -]?(?:code|Code|status)\W{1,12}(?:137|-9)\b|[Ee]xitcode\W{1,8}-9\b"
    rb"|\bSIGKILL\b|killed by signal: Killed|terminated by signal 9\b|Signal 9 \(SIGKILL\)"
)
_BUS = re.compile(
    rb"killed by signal: Bus error|insufficient shared memory \(shm\)"
    rb"|unable to (?:open|mmap|write).{0,60}shared memory object"
)
_ARRAY = re.compile(
    rb"Unable to allocate " + SIZE + rb" for an array with shape \(([\d,\s]{0,300})\) and data type (\w{1,30})"
)
_ARRAY_UNSIZED = re.compile(
    rb"[Uu]nable to allocate array with shape ?\(([\d,\s]{0,300})\) and data type (?:<class ')?(?:numpy\.)?(\w{1,30})"
)
_TORCH_CPU = re.compile(rb"(?:can't allocate memory|not enough memory): you tried to allocate (\d{1,19}) bytes")
_BARE = re.compile(
    rb"(?:\A|\s)MemoryError(?:: std::bad_alloc)?\s*\Z|what\(\): {1,3}std::bad_alloc|\Astd::bad_alloc"
    rb"|\[Errno 12\] Cannot allocate memory|paging file is too small"
)


def read_kill(line: bytes, builder: DumpBuilder) -> bool:
    """Reads a report of a killed process. ``sure`` becomes False if only the signal is known."""
    builder.kind, builder.kept_in = FailureKind.KILL, PoolKind.HOST
    if kernel := _KERNEL.search(line):
        builder.who = CONTAINER_LIMIT if kernel[1].startswith(b"Memory") else KERNEL_NAME
        builder.allocator = decode_name(kernel[2])
        builder.total_bytes = _kib_to_bytes(kernel[3])
        return True
    if oom := _OOM_KILL.search(line):
        builder.who = CONTAINER_LIMIT if oom[1] == b"CONSTRAINT_MEMCG" else KERNEL_NAME
        return True
    who = next((who for pattern, who in _LIMITS if pattern.search(line)), None)
    if who is not None:
        builder.who = who
        return True
    if _BUS.search(line):
        builder.who, builder.allocator = SHARED_MEMORY, SHARED_MEMORY
        return True
    if _SHELL.match(line) or _SIGNAL.search(line):
        builder.who, builder.sure = "the system", False
        return True
    return False


def container_limit_bytes(line: bytes) -> int | None:
    """The container's limit in the kernel's report."""
    found = _CGROUP_LIMIT.search(line)
    return _kib_to_bytes(found[1]) if found else None


def read_host_request(line: bytes, builder: DumpBuilder) -> bool:
    """Reads a request for host memory that failed in Python."""
    builder.kind, builder.kept_in = FailureKind.HOST, PoolKind.HOST
    if array := _ARRAY.search(line):
        builder.allocator = "NumPy"
        builder.ask(parse_size(array[1], array[2]), shape=array[3], dtype=decode_name(array[4]))
        return True
    if array := _ARRAY_UNSIZED.search(line):
        builder.allocator, dtype = "NumPy", decode_name(array[2])
        builder.ask(tensor_bytes(parse_dimensions(array[1]), dtype), shape=array[1], dtype=dtype)
        return True
    if torch := _TORCH_CPU.search(line):
        builder.allocator = "PyTorch on the CPU"
        builder.ask(parse_size(torch[1]))
        return True
    if _BARE.search(line):
        builder.allocator = "the system"
        return True
    return False


def _kib_to_bytes(text: bytes | None) -> int | None:
    value = parse_size(text)
    return value << 10 if value is not None and value < 1 << 50 else None


# A handle of cuDNN or cuBLAS with its kernels takes less than this. If more is free, memory is not the reason.
MAX_LIBRARY_NEED_BYTES = 1 << 30
CONTEXT_OF_CUDA = "CUDA's context"
REFUSED_PATTERN = re.compile(
    rb"failed to alloc(?:ate)? (?:[\d.]{1,20}[KMGT]?i?B? \()?(\d{1,19}) ?(?:bytes|B)\)? "
    rb"(from device|on host|unified memory)"
)
CONTEXT_PATTERN = re.compile(
    rb"CUDA runtime implicit initialization on GPU:\d{1,3} failed\. Status: out of memory"
    rb"|(?:Failed setting context|failed call to cuInit|failed call to cuCtxCreate)[^:]{0,40}: CUDA_ERROR_OUT_OF_MEMORY"
    rb"|cudaGetDevice\(\) failed\. Status: out of memory"
    rb"|failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY[^;]{0,60}"
    rb"(?:; total memory reported: (\d{1,20}))?"
)
MISMATCH_PATTERN = re.compile(rb"Loaded (?:runtime )?CuDNN library: \S+ but source was compiled")
USAGE_PATTERN = re.compile(rb"Memory usage: (\d{1,19}) bytes free, (\d{1,19}) bytes total")
_CERTAIN = re.compile(
    rb"(?P<name>CUDNN|CUBLAS|CUSOLVER|CUSPARSE|CUFFT)_(?:STATUS_)?ALLOC_FAILED"
    rb"|miopenStatusAllocFailed|rocblas_status_memory_error|MIOpen.{0,80}hipErrorOutOfMemory"
    rb"|Cuda failure (?:\d{1,4} )?'out of memory'"
    rb"|CUDA_ERROR_OUT_OF_MEMORY.{0,80}(?:CUBIN|module|cudnn|cublas)"
    rb"|Failed to load in-memory CUBIN.{0,80}CUDA_ERROR_OUT_OF_MEMORY"
    rb"|failed to create cublas handle: the resource allocation failed"
)
_DOUBTFUL = re.compile(
    rb"(?P<name>CUDNN|CUBLAS|CUSOLVER)_STATUS_(?:INTERNAL_ERROR|NOT_INITIALIZED)"
    rb"|[Cc]ould not create (?:cudnn|cublas) handle|[Ff]ailed to create (?:cudnn|cublas|cusolver) handle"
    rb"|Blas (?:x?GEMM|SGEMM|GEMV) launch failed|without BLAS support|No algorithm worked!"
    rb"|Failed to call ThenRnn|Failed to get convolution algorithm|DNN library (?:is not found|initialization failed)"
)
_LIBRARY_NAMES = {
    b"CUDNN": "cuDNN",
    b"CUBLAS": "cuBLAS",
    b"CUSOLVER": "cuSOLVER",
    b"CUSPARSE": "cuSPARSE",
    b"CUFFT": "cuFFT",
}


def read_library_failure(line: bytes, builder: DumpBuilder) -> bool:
    """Reads a library's failure; returns whether the line is one. ``sure`` is False if it may have another reason."""
    certain = _CERTAIN.search(line)
    found = certain or _DOUBTFUL.search(line)
    if found is None:
        return False
    builder.kind, builder.sure = FailureKind.LIBRARY, certain is not None
    builder.who = _library_name(line, found)
    builder.allocator = builder.who
    if b"when calling" in line or b"cuDNN error" in line:
        builder.allocator += " under PyTorch"
    return True


def read_context_failure(line: bytes, builder: DumpBuilder) -> bool:
    """Reads a failure of the driver to initialise a GPU."""
    found = CONTEXT_PATTERN.search(line)
    if found is None:
        return False
    builder.kind, builder.who, builder.allocator = FailureKind.LIBRARY, CONTEXT_OF_CUDA, CONTEXT_OF_CUDA
    total = parse_size(found[1])
    builder.device_bytes = total if total and total < 1 << 50 else None  # 2**64 - 1 means unknown
    return True


def _library_name(line: bytes, found: re.Match[bytes]) -> str:
    named = found.groupdict().get("name")
    if named:
        return _LIBRARY_NAMES[named]
    low = line.lower()
    if b"cuda failure" in low:
        return "NCCL"
    if b"miopen" in low or b"rocblas" in low:
        return "MIOpen" if b"miopen" in low else "rocBLAS"
    if b"cubin" in low or b"module" in low:
        return "CUDA's modules"
    return "cuBLAS" if b"blas" in low else "cuSOLVER" if b"cusolver" in low else "cuDNN"
