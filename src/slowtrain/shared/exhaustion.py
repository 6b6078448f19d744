"""Nouns of exhausted memory: what was requested, what held the memory, and what that means.

Bytes are None if the log does not say. A ``Dump`` is one moment at which an allocator had no room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from slowtrain.shared.vocabulary import Place, Text


class PoolKind(Text, Enum):
    """Whose memory ran out."""

    DEVICE = "device"  # the accelerator's own
    PINNED = "pinned host"  # page-locked memory of the host, used for copies
    HOST = "host"


class FailureOutcome(Text, Enum):
    """Why a piece of memory could not be had."""

    FULL = "full"  # less was free in total than was requested
    FRAGMENTED = "fragmented"  # enough was free, but in no single piece
    TAKEN = "taken by others"  # the pool was allowed to grow, but the driver had no more memory
    TOO_LARGE = "larger than the pool"  # the request exceeds even an empty pool
    LIBRARY = "no memory for a library"  # cuDNN, cuBLAS or NCCL, which allocate outside the pool
    OTHER = "not for want of memory"
    KILLED = "killed by the system"  # the kernel, a container's limit or a scheduler ended the process
    UNKNOWN = "cannot tell"  # the log does not contain enough to decide


class FailureKind(Text, Enum):
    """What the log shows of the failure."""

    REQUEST = "request"
    PROGRAM = "program"  # the compiler found that a whole program does not fit
    HOST = "host"  # a request for host memory that the system refused
    COPY = "copy"  # a copy of a tensor to the device; its error gives no size
    LIBRARY = "library"
    KILL = "kill"


class HeldBy(Text, Enum):
    """Who held the memory before the request."""

    OTHERS = "other processes"
    LIMIT = "other processes, or a limit that was set"
    OWN = "this process"
    SOMEBODY = "this process or others"
    NOBODY = "nobody"


class Purpose(Text, Enum):
    """The purpose of a piece, as far as the log tells. The first two have the same size for any batch."""

    UPDATE = "a variable's update"
    VARIABLE = "the making of a variable"
    STEP = "a step"
    ARRAY = "an array as a constant"  # the whole array at once, for any batch
    UNKNOWN = "not known"


@dataclass(frozen=True)
class MemoryRequest:
    """What was requested; ``rounded_bytes`` is the allocator's size for it.

    ``within`` is the purpose that its traceback implies. ``place`` is the line that defined the op if the log has it,
    else the line that ran it. ``also`` are other lines of the script in the log. ``constant``: the traceback makes a
    constant from an array.
    """

    bytes: int | None = None
    rounded_bytes: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    op: str = ""
    device: str = ""
    place: Place | None = None
    within: Purpose | None = None
    also: tuple[Place, ...] = ()
    constant: bool = False

    @property
    def needed_bytes(self) -> int | None:
        return self.rounded_bytes if self.rounded_bytes is not None else self.bytes


@dataclass(frozen=True)
class MemoryHolder:
    """Memory in use of one kind: ``count`` pieces of ``each_bytes`` (None: of several sizes), made by ``name``.

    ``expansion``: the factor by which the device's layout enlarges its values.
    """

    bytes: int
    count: int
    each_bytes: int | None = None
    name: str = ""
    place: Place | None = None
    expansion: float | None = None


@dataclass(frozen=True)
class Dump:
    """One allocator at the moment when it had no room.

    ``growth_bytes``: what it was still allowed to request from the driver. ``driver_free_bytes``: what the card had
    free. ``whole``: the list of chunks is complete, because their sum equals the allocator's figure. ``by_op`` is set
    if the log tells who allocated. ``repeats`` counts dumps of the same kind that followed. ``jax``: JAX wrote it,
    whose settings differ from TensorFlow's.

    ``device_bytes`` and ``free_at_start_bytes`` are the card's figures at the start of the run. ``others_bytes``:
    memory of other processes that the log states. ``outside_bytes``: this process's memory outside the pool.
    ``refused_bytes``: the largest request that the driver refused. ``sure`` is False if memory may not be the reason;
    ``other_reason`` names the reason if the log does. ``who`` names the library, or what killed the process.
    """

    allocator: str
    request: MemoryRequest
    line: int
    rank: str = ""
    limit_bytes: int | None = None
    pool_bytes: int | None = None
    in_use_bytes: int | None = None
    peak_bytes: int | None = None
    free_bytes: int | None = None
    largest_free_bytes: int | None = None
    free_pieces: int | None = None
    regions: int | None = None
    growth_bytes: int | None = None
    driver_free_bytes: int | None = None
    by_size: tuple[MemoryHolder, ...] = ()
    by_op: tuple[MemoryHolder, ...] = ()
    whole: bool = False
    repeats: int = 0
    used_share: float | None = None  # upper bound of the share in use, from the map at the dump's end
    jax: bool = False
    kind: FailureKind = FailureKind.REQUEST
    kept_in: PoolKind | None = None  # if the log states it and the allocator's name says otherwise
    device_bytes: int | None = None
    free_at_start_bytes: int | None = None
    others_bytes: int | None = None
    outside_bytes: int | None = None
    refused_bytes: int | None = None
    sure: bool = True
    by_part: tuple[MemoryHolder, ...] = ()  # of a program: its arguments, its temporaries
    other_reason: str = ""
    who: str = ""

    @property
    def pool(self) -> PoolKind:
        if self.kept_in is not None:
            return self.kept_in
        name = self.allocator.lower()
        if "host" in name:
            return PoolKind.PINNED
        return PoolKind.HOST if "cpu" in name or (not name and "CPU" in self.request.device) else PoolKind.DEVICE


@dataclass(frozen=True)
class Advice:
    """What to do. ``gain_bytes`` is what it frees or makes usable; None if that is unknown."""

    says: str
    gain_bytes: int | None = None
    enough: bool | None = None


@dataclass(frozen=True)
class Questions:
    """Answers that come before any advice; None if the log does not tell.

    ``alone``: the request by itself exceeds the whole device. ``held_by`` held ``held_bytes`` of ``whole_bytes``
    before. ``constant``: the request is a constant made from an array.
    """

    alone: bool | None = None
    held_by: HeldBy | None = None
    held_bytes: int | None = None
    whole_bytes: int | None = None
    constant: bool | None = None


@dataclass(frozen=True)
class JudgedDump:
    """A judged dump: one sentence, and advice, the best first."""

    dump: Dump
    outcome: FailureOutcome
    says: str
    advice: tuple[Advice, ...] = ()
    purpose: Purpose = Purpose.UNKNOWN
    questions: Questions = Questions()


@dataclass(frozen=True)
class Exhaustion:
    """All that one log says about memory. ``findings`` has the most informative one first.

    ``retries`` counts, by allocator, requests that failed and were satisfied in another way, which is a sign of nearly
    full memory. Those that exceed the whole pool (``oversized``, of ``pool_bytes``) are not such a sign.
    """

    path: str
    bytes: int
    lines: int
    findings: tuple[JudgedDump, ...] = ()
    dumps: int = 0
    retries: Mapping[str, int] = field(default_factory=dict)
    retried_bytes: Mapping[str, int] = field(default_factory=dict)  # the largest of these requests
    oversized: Mapping[str, int] = field(default_factory=dict)
    pool_bytes: Mapping[str, int] = field(default_factory=dict)
    refusals: int = 0  # by the driver, of a pool that wanted to grow
    refused_bytes: int = 0  # the largest of these requests
    host_refusals: int = 0  # those of them for page-locked host memory
    jax: bool = False
    notes: tuple[str, ...] = ()
