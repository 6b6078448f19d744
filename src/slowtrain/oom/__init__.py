"""Reads the messages that allocators print when memory runs out, from any training log, and judges them.

    bytes of a log --reading--> dumps --judgement--> findings

The log is read once, in blocks. What is kept does not grow with it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from slowtrain.errors import InputError
from slowtrain.oom import dump_judgement, log_text
from slowtrain.oom.log_reader import LOG_BLOCK_BYTES, LogReader
from slowtrain.oom.log_text import format_size
from slowtrain.shared.exhaustion import Exhaustion, FailureKind, FailureOutcome, JudgedDump

MAX_FINDINGS = 20
GZIP_MAGIC = b"\x1f\x8b"
UNREADABLE_ARCHIVES = {b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2", b"PK\x03\x04": "zip"}


def read_log(source: Path | IO[bytes], path: str) -> Exhaustion:
    """Judges a log. Raises ``InputError`` if it cannot be read or holds no message about memory."""
    found = LogReader()
    cut: tuple[str, ...] = ()
    try:
        for block in log_text.decode_utf16(_log_blocks(source, path)):
            found.feed(block)
    except EOFError:  # a truncated gzip file: the writer died, or the copy is incomplete
        cut = ("the file was truncated when it was compressed or copied: the rest is missing",)
    except (OSError, zlib.error) as error:
        raise InputError(f"cannot read {path} ({getattr(error, 'strerror', None) or error})") from error
    found.close()
    judged = judge_log(found, path)
    judged = replace(judged, notes=(*judged.notes, *cut))
    if not judged.findings and not judged.retries and not judged.refusals:
        seen = "this one line" if found.lines == 1 else f"these {found.lines:,} lines"
        seen += ", which end where the file was truncated" if cut else ""
        raise InputError(
            f"{path}: no allocator of TensorFlow, JAX or PyTorch ran out of memory in {seen}; give the log of the "
            "run's stderr (python train.py 2> train.log), without TF_CPP_MIN_LOG_LEVEL"
        )
    return judged


def judge_log(found: LogReader, path: str) -> Exhaustion:
    """Judges what a reader found. Errors come first, then what is understood, then the order in the log."""
    judged = [dump_judgement.judge_dump(replace(dump, jax=dump.rank in found.jax)) for dump in found.dumps.values()]
    judged.sort(
        key=lambda f: (
            not f.dump.sure,
            f.dump.kind in (FailureKind.LIBRARY, FailureKind.KILL),  # an allocator's own message is more exact
            f.dump.request.shape is None and f.dump.request.place is None,
            f.outcome is FailureOutcome.UNKNOWN,
            f.dump.line,
        )
    )
    return Exhaustion(
        path,
        found.bytes,
        found.lines,
        tuple(judged[:MAX_FINDINGS]),
        found.count,
        dict(found.retries),
        retried_bytes=dict(found.retried_bytes),
        oversized=dict(found.oversized),
        pool_bytes=dict(found.pool_bytes),
        refusals=found.refusals,
        refused_bytes=found.refused_bytes,
        host_refusals=found.host_refusals,
        jax=bool(found.jax),
        notes=tuple(_log_notes(found, judged)),
    )


def _log_notes(found: LogReader, judged: Sequence[JudgedDump]) -> list[str]:
    """Notes on the log itself: what is mixed or missing in it, and requests that were refused without an error."""
    notes = []
    if found.mixed:
        notes.append(
            f"{found.mixed} of the dumps are cut or mixed with lines of others: only a part of what held the memory "
            "is known"
        )
    if found.jax and judged and not found.raised and judged[0].dump.kind is FailureKind.REQUEST:
        notes.append(
            "this log has no error after the dump: JAX runs ahead of Python and raises only where Python waits for "
            "a result; jax.block_until_ready() after a step shows which step it was"
        )
    for needs, limit in list(found.programs.values())[:1]:
        notes.append(
            f"XLA reported during compilation that a program needs {format_size(needs)} at its peak, even with "
            f"recomputation, but has only {format_size(limit)}"
        )
    if found.refusals:
        requests = "1 request" if found.refusals == 1 else f"{found.refusals} requests"
        most = f", up to {format_size(found.most_refused_bytes)} at once" if found.most_refused_bytes else ""
        notes.append(f"the driver refused {requests} of a pool to grow{most}")
    if found.unified_refusals:
        notes.append(
            "some of these were for unified memory (TF_FORCE_UNIFIED_MEMORY), which includes host memory: device "
            "and host together had no more"
        )
    if found.host_refusals and not judged:
        notes.append(
            "the pool retries with sizes that are a tenth smaller each time, and finally with ordinary memory: "
            "check what else uses the host's memory, and the container's limit; a smaller model on the GPU does not "
            "help"
        )
    if len(judged) > MAX_FINDINGS:
        notes.append(f"{len(judged) - MAX_FINDINGS} more kinds of dumps are left out")
    return notes


def _log_blocks(source: Path | IO[bytes], path: str) -> Iterator[bytes]:
    if isinstance(source, Path):
        with source.open("rb") as file:
            yield from _log_blocks(file, path)
        return
    first = source.read(LOG_BLOCK_BYTES)
    if first.startswith(GZIP_MAGIC) and source.seekable():
        source.seek(0)
        with gzip.open(source) as plain:
            yield from _unpacked_blocks(plain)
        return
    packed = next(
        (name for mark, name in {GZIP_MAGIC: "gzip", **UNREADABLE_ARCHIVES}.items() if first.startswith(mark)), None
    )
    if packed is not None:
        raise InputError(f"{path} is compressed with {packed}; unpack it first, because its content was not read")
    while first:
        yield first
        first = source.read(LOG_BLOCK_BYTES)


def _unpacked_blocks(plain: gzip.GzipFile) -> Iterator[bytes]:
    """Yields whole blocks, and the bytes before the end of a truncated file, which one ``read_log`` would lose."""
    block = bytearray()
    try:
        while piece := plain.read1(LOG_BLOCK_BYTES):
            block += piece
            if len(block) >= LOG_BLOCK_BYTES:
                yield bytes(block)
                block.clear()
    except EOFError:
        yield bytes(block)
        raise
    yield bytes(block)
