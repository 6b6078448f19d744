"""Failures of cuDNN, cuBLAS, NCCL and the driver: no memory outside the pool, or another reason."""

from __future__ import annotations

import re

from slowtrain.model.exhaustion import FailureKind
from slowtrain.oom.messages.dump_builder import DumpBuilder
from slowtrain.oom.text.byte_sizes import parse_size

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
