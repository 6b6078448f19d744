"""Splits a log into lines and removes what launchers, containers and terminals added to them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

DOCKER_LINE_PREFIX = b'{"log":'  # Docker's own log files hold one JSON object per line
MAX_LINE_BYTES = 1 << 16  # bytes; no allocator prints longer lines
_COLOUR = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-_])")
# A prefix that names the writer: mpirun, srun -l, torchrun, docker compose, kubectl --prefix, stern.
_RANK = re.compile(
    rb"\[(?P<mpi>\d+,\d+)\]<std(?:err|out)>:? ?"
    rb"|\[(?P<rank>(?:rank|default|worker[-_]?)\d+)\]:? ?"
    rb"|(?P<srun>\d{1,6}): (?=\S)"
    rb"|(?P<compose>[A-Za-z][\w.-]{0,100}) +\| ?"
    rb"|\[(?P<pod>pod/[\w./-]{1,200})\] "
    rb"|\((?P<ray>[\w.]{1,80}(?: pid=\d+)?(?:, ip=[\d.]+)?)\) "
)
# A time that the container runtime puts first: docker -t, kubectl --timestamps, CRI.
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|[+-]\d\d:?\d\d) (?:std(?:err|out) [FP] )?")
# The prefix of TensorFlow's logging: "2024-01-31 12:00:00.1: W path/file.cc:1] ", since 2.17 "W0000 00:… 1 file.cc:1]
# ".
MESSAGE_PATTERN = re.compile(
    rb"\b(?:[IWEF]\d{4} [\d:.]{5,30} {1,8}(?P<thread>\d{1,10})|[IWEF]) "
    rb"[^\s\]]{0,300}?(?P<file>\w{1,60}\.(?:cc|h)):\d{1,6}\] ?"
)


def split_lines(block: bytes) -> tuple[list[bytes], bytes]:
    """The complete lines, and the beginning of the next. A carriage return ends a line as well (progress bars)."""
    whole, _, rest = block.rpartition(b"\n")
    if not _:
        return ([block], b"") if len(block) > MAX_LINE_BYTES else ([], block)
    return whole.split(b"\n"), rest


def strip_terminal_codes(line: bytes) -> bytes:
    """The line without colour codes and without text that a progress bar overwrote."""
    line = line[:MAX_LINE_BYTES].rstrip(b"\r\n")
    if line.startswith(DOCKER_LINE_PREFIX):
        line = _unwrap_docker_line(line)
    if b"\x1b" in line:
        line = _COLOUR.sub(b"", line)
    if b"\r" in line:
        line = line.rpartition(b"\r")[2] or line
    return line


def _unwrap_docker_line(line: bytes) -> bytes:
    """The text in a line of Docker's log file; a truncated line is returned as it is."""
    try:
        found = json.loads(line)["log"]
    except (ValueError, KeyError, RecursionError):
        return line
    return found.rstrip("\r\n").encode("utf-8", "replace") if isinstance(found, str) else line


def split_rank_prefix(line: bytes) -> tuple[str, bytes]:
    """The writer of a line ("" if unknown), and the line as the program wrote it."""
    rank = ""
    for _ in range(3):  # a runtime's time may stand before or after the rank
        stamp = _STAMP.match(line)
        if stamp:
            line = line[stamp.end() :]
        found = None if rank else _RANK.match(line)
        if found is None:
            if stamp is None:
                break
            continue
        rank = next(v for v in found.groups() if v).decode("ascii", "replace")
        line = line[found.end() :]
    return rank, line


def decode_utf16(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Converts UTF-16, which PowerShell's redirection writes, to UTF-8; other input is unchanged."""
    import codecs

    first = next(blocks, b"")
    kind = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(first[:2])
    if kind is None:
        yield first
        yield from blocks
        return
    turn = codecs.getincrementaldecoder(kind)("replace")
    yield turn.decode(first[2:]).encode("utf-8", "replace")
    for block in blocks:
        yield turn.decode(block).encode("utf-8", "replace")
