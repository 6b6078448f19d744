"""Failures that are described in one line, by the framework, library or system that prints it."""

from __future__ import annotations

import re

from slowtrain.oom.messages import host_memory, library_failures, torch_errors, tpu_errors, xla_errors
from slowtrain.oom.messages.dump_builder import DumpBuilder

# The most specific reader first. A line is read only if it contains one of the reader's words.
_READERS = (
    ((b"ut of memory", b"Tried to allocate"), torch_errors.read_torch_error),
    ((b"memory space", b"not possible", b"would exceed memory", b"SparseCore"), tpu_errors.read_tpu_error),
    ((b"ut of memory", b"ailed to allocate"), xla_errors.read_xla_error),
    (
        (b"PrimaryCtxRetain", b"implicit initialization", b"etting context", b"cuInit", b"cuCtxCreate",
         b"cudaGetDevice"),
        library_failures.read_context_failure,
    ),
    (
        (b"CUDNN", b"CUBLAS", b"CUSOLVER", b"CUSPARSE", b"CUFFT", b"udnn handle", b"ublas handle", b"DNN library",
         b"MIOpen", b"miopen", b"rocblas", b"ThenRnn", b"launch failed", b"BLAS support", b"algorithm worked",
         b"convolution algorithm", b"Cuda failure", b"CUDA_ERROR_OUT_OF_MEMORY"),
        library_failures.read_library_failure,
    ),
    (
        (b"MemoryError", b"nable to allocate", b"you tried to allocate", b"bad_alloc", b"allocate memory",
         b"paging file"),
        host_memory.read_host_request,
    ),
    ((b"ill", b"oom", b"xit", b"SIG", b"memory", b"Memory", b"RAM", b"OUT_OF"), host_memory.read_kill),
)  # fmt: skip


# Most lines contain none of these.
_ANY_READER_WORD = re.compile(
    rb"emory|SparseCore|alloc|STATUS_|MEMORY|handle|library|algorithm|ailed|failure|support|ill|oom|xit|SIG|RAM|paging"
)


def read_single_line_failure(line: bytes, number: int, rank: str) -> DumpBuilder | None:
    """The failure that a line describes, as far as it does."""
    if _ANY_READER_WORD.search(line) is None:
        return None
    for words, take in _READERS:
        if any(word in line for word in words):
            builder = DumpBuilder("", number, rank)
            if take(line, builder):
                return builder
    return None
