"""Failures that are described in one line, by the framework, library or system that prints it."""

from __future__ import annotations

import re

from slowtrain.dumps import killing, libraries, torch, tpu, xla
from slowtrain.dumps.building import Builder

# The most specific reader first. A line is read only if it contains one of the reader's words.
_READERS = (
    ((b"ut of memory", b"Tried to allocate"), torch.read),
    ((b"memory space", b"not possible", b"would exceed memory", b"SparseCore"), tpu.read),
    ((b"ut of memory", b"ailed to allocate"), xla.read),
    (
        (b"PrimaryCtxRetain", b"implicit initialization", b"etting context", b"cuInit", b"cuCtxCreate",
         b"cudaGetDevice"),
        libraries.context,
    ),
    (
        (b"CUDNN", b"CUBLAS", b"CUSOLVER", b"CUSPARSE", b"CUFFT", b"udnn handle", b"ublas handle", b"DNN library",
         b"MIOpen", b"miopen", b"rocblas", b"ThenRnn", b"launch failed", b"BLAS support", b"algorithm worked",
         b"convolution algorithm", b"Cuda failure", b"CUDA_ERROR_OUT_OF_MEMORY"),
        libraries.read,
    ),
    (
        (b"MemoryError", b"nable to allocate", b"you tried to allocate", b"bad_alloc", b"allocate memory",
         b"paging file"),
        killing.request,
    ),
    ((b"ill", b"oom", b"xit", b"SIG", b"memory", b"Memory", b"RAM", b"OUT_OF"), killing.read),
)  # fmt: skip


# Most lines contain none of these.
_ANY = re.compile(
    rb"emory|SparseCore|alloc|STATUS_|MEMORY|handle|library|algorithm|ailed|failure|support|ill|oom|xit|SIG|RAM|paging"
)


def read(line: bytes, number: int, rank: str) -> Builder | None:
    """The failure that a line describes, as far as it does."""
    if _ANY.search(line) is None:
        return None
    for words, take in _READERS:
        if any(word in line for word in words):
            builder = Builder("", number, rank)
            if take(line, builder):
                return builder
    return None
