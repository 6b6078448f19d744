"""Reads what allocators print when memory runs out, out of any training log, and says what it means.

    bytes of a log --reading--> dumps --judging--> findings

The log is read once, in blocks; what is kept does not grow with it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from slowtrain.dumps import judging, lines
from slowtrain.dumps.reading import BLOCK, Reader
from slowtrain.errors import InputError
from slowtrain.model.exhaustion import Exhaustion, Outcome

MOST_FINDINGS = 20
GZIP = b"\x1f\x8b"


def read(source: Path | IO[bytes], path: str) -> Exhaustion:
    """All that a log says. Raises ``InputError`` where it cannot be read or says nothing of memory."""
    found = Reader()
    try:
        for block in lines.decoded(_blocks(source)):
            found.feed(block)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path} ({getattr(error, 'strerror', None) or error})") from error
    found.close()
    told = exhaustion(found, path)
    if not told.findings and not told.retries:
        raise InputError(
            f"{path}: no allocator ran out of memory in these {found.lines:,} lines; give the log of the run's stderr "
            "(python train.py 2> train.log), without TF_CPP_MIN_LOG_LEVEL"
        )
    return told


def exhaustion(found: Reader, path: str) -> Exhaustion:
    """What a reader has found, judged. First comes what ended in an error, then what is understood, then the first."""
    judged = [judging.judged(dump) for dump in found.dumps.values()]
    judged.sort(
        key=lambda f: (
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
    if found.refusals:
        notes.append(f"the driver refused {found.refusals} requests of a pool that wanted to grow")
    if len(judged) > MOST_FINDINGS:
        notes.append(f"{len(judged) - MOST_FINDINGS} more kinds of dumps are left out")
    return Exhaustion(
        path, found.bytes, found.lines, tuple(judged[:MOST_FINDINGS]), found.count, dict(found.retries), tuple(notes)
    )


def _blocks(source: Path | IO[bytes]) -> Iterator[bytes]:
    if isinstance(source, Path):
        with source.open("rb") as file:
            yield from _blocks(file)
        return
    first = source.read(BLOCK)
    if first.startswith(GZIP) and source.seekable():
        source.seek(0)
        with gzip.open(source) as plain:
            while block := plain.read(BLOCK):
                yield block
        return
    while first:
        yield first
        first = source.read(BLOCK)
