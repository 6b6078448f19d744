"""Reads the messages that allocators print when memory runs out, from any training log, and judges them.

    bytes of a log --reading--> dumps --judgement--> findings

The log is read once, in blocks. What is kept does not grow with it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

from slowtrain.dumps import judging, lines
from slowtrain.dumps.reading import BLOCK, Reader
from slowtrain.dumps.wording import size
from slowtrain.errors import InputError
from slowtrain.model.exhaustion import Exhaustion, Kind, Outcome

MOST_FINDINGS = 20
GZIP = b"\x1f\x8b"
PACKED = {b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2", b"PK\x03\x04": "zip"}


def read(source: Path | IO[bytes], path: str) -> Exhaustion:
    """Judges a log. Raises ``InputError`` if it cannot be read or holds no message about memory."""
    found = Reader()
    cut: tuple[str, ...] = ()
    try:
        for block in lines.decoded(_blocks(source, path)):
            found.feed(block)
    except EOFError:  # a truncated gzip file: the writer died, or the copy is incomplete
        cut = ("the file was cut off while it was packed or copied: what came behind is not in it",)
    except (OSError, zlib.error) as error:
        raise InputError(f"cannot read {path} ({getattr(error, 'strerror', None) or error})") from error
    found.close()
    told = exhaustion(found, path)
    told = replace(told, notes=(*told.notes, *cut))
    if not told.findings and not told.retries and not told.refusals:
        seen = "this one line" if found.lines == 1 else f"these {found.lines:,} lines"
        seen += ", where the file was cut off" if cut else ""
        raise InputError(
            f"{path}: no allocator of TensorFlow, JAX or PyTorch ran out of memory in {seen}; give the log of the "
            "run's stderr (python train.py 2> train.log), without TF_CPP_MIN_LOG_LEVEL"
        )
    return told


def exhaustion(found: Reader, path: str) -> Exhaustion:
    """Judges what a reader found. Errors come first, then what is understood, then the order in the log."""
    judged = [judging.judged(replace(dump, jax=dump.rank in found.jax)) for dump in found.dumps.values()]
    judged.sort(
        key=lambda f: (
            not f.dump.sure,
            f.dump.kind in (Kind.LIBRARY, Kind.KILL),  # an allocator's own message is more exact
            f.dump.request.shape is None and f.dump.request.place is None,
            f.outcome is Outcome.UNKNOWN,
            f.dump.line,
        )
    )
    notes = []
    if found.mixed:
        notes.append(
            f"{found.mixed} of the dumps are cut or mixed with another's lines: their holders are told as far as known"
        )
    if found.jax and judged and not found.raised and judged[0].dump.kind is Kind.REQUEST:
        notes.append(
            "no error follows in this log: JAX runs ahead of Python, and raises where a result is first waited for; "
            "jax.block_until_ready() behind a step shows which step it was"
        )
    for needs, limit in list(found.programs.values())[:1]:
        notes.append(
            f"XLA said while it compiled that a program needs {size(needs)} at its peak, whatever it computes again, "
            f"where it was to keep to {size(limit)}"
        )
    if found.refusals:
        requests = "1 request" if found.refusals == 1 else f"{found.refusals} requests"
        most = f", up to {size(found.most_refused_bytes)} at once" if found.most_refused_bytes else ""
        notes.append(f"the driver refused {requests} of a pool that wanted to grow{most}")
    if found.unified_refusals:
        notes.append(
            "some of these were for unified memory (TF_FORCE_UNIFIED_MEMORY), which the host's memory backs: device "
            "and host together had no more"
        )
    if found.host_refusals and not judged:
        notes.append(
            "the pool goes on with pieces that are a tenth smaller each time, and with ordinary memory in the end: "
            "see what else holds the host's memory, or the container's limit; a smaller model on the GPU is no cure"
        )
    if len(judged) > MOST_FINDINGS:
        notes.append(f"{len(judged) - MOST_FINDINGS} more kinds of dumps are left out")
    return Exhaustion(
        path,
        found.bytes,
        found.lines,
        tuple(judged[:MOST_FINDINGS]),
        found.count,
        dict(found.retries),
        retried_bytes=dict(found.retried_bytes),
        oversized=dict(found.oversized),
        pool_bytes=dict(found.pool_bytes),
        refusals=found.refusals,
        refused_bytes=found.refused_bytes,
        host_refusals=found.host_refusals,
        jax=bool(found.jax),
        notes=tuple(notes),
    )


def _blocks(source: Path | IO[bytes], path: str) -> Iterator[bytes]:
    if isinstance(source, Path):
        with source.open("rb") as file:
            yield from _blocks(file, path)
        return
    first = source.read(BLOCK)
    if first.startswith(GZIP) and source.seekable():
        source.seek(0)
        with gzip.open(source) as plain:
            yield from _unpacked(plain)
        return
    packed = next((name for mark, name in {GZIP: "gzip", **PACKED}.items() if first.startswith(mark)), None)
    if packed is not None:
        raise InputError(f"{path} is packed by {packed}; unpack it first: what is in it was not read")
    while first:
        yield first
        first = source.read(BLOCK)


def _unpacked(plain: gzip.GzipFile) -> Iterator[bytes]:
    """Yields whole blocks, and for a truncated file the bytes before its end, which a single ``read`` would lose."""
    held = bytearray()
    try:
        while piece := plain.read1(BLOCK):
            held += piece
            if len(held) >= BLOCK:
                yield bytes(held)
                held.clear()
    except EOFError:
        yield bytes(held)
        raise
    yield bytes(held)
