"""The nouns of running out of memory: what was asked for, what held the memory, what that means. As in ``model``.

Bytes are None where the log does not say; a ``Dump`` is one moment at which an allocator had no room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from slowtrain.model import Place, Text
from slowtrain.values import dataclass


class Pool(Text, Enum):
    """Whose memory ran out."""

    DEVICE = "device"  # the accelerator's own
    PINNED = "pinned host"  # locked memory of the host, through which copies go
    HOST = "host"


class Outcome(Text, Enum):
    """Why a piece could not be had."""

    FULL = "full"  # free in total was less than what was asked
    FRAGMENTED = "fragmented"  # enough was free, in no one piece
    TAKEN = "taken by others"  # the pool was allowed to grow, and the driver had no more
    TOO_LARGE = "larger than the pool"  # it would not fit into an empty one
    LIBRARY = "no memory for a library"  # cuDNN, cuBLAS or NCCL, which allocate beside the pool
    OTHER = "not for want of memory"
    KILLED = "killed by the system"  # the kernel, a container's limit or a scheduler ended the process
    UNKNOWN = "cannot tell"  # the log does not hold what it takes to say


class Kind(Text, Enum):
    """What the log shows of the failure."""

    REQUEST = "request"
    PROGRAM = "program"  # a compiler found that a whole program does not fit
    HOST = "host"  # a request for the host's memory that the system refused
    COPY = "copy"  # of a tensor to the device; its error names no size
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
    """What a piece was for, as far as the log tells: the first two are as large whatever the batch."""

    UPDATE = "a variable's update"
    VARIABLE = "the making of a variable"
    STEP = "a step"
    ARRAY = "an array as a constant"  # all of it at once, whatever the batch
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Request:
    """What was asked for; ``rounded_bytes`` is what the allocator makes of it.

    ``within`` is what its traceback is about, where that tells. ``place`` is the line that made the op, where the log
    has it, else the line that ran it; ``also`` are other lines of the script that the log names. ``constant`` says that
    the traceback makes a constant from an array.
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
    def needed(self) -> int | None:
        return self.rounded_bytes if self.rounded_bytes is not None else self.bytes


@dataclass(frozen=True)
class Holder:
    """Memory in use of one kind: ``count`` pieces of ``each_bytes`` (None: of several sizes), made by ``name``.

    ``expansion`` is how many times as large as its values the device's layout makes it.
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

    ``growth_bytes`` is what it was still allowed to ask of the driver. ``driver_free_bytes`` is what the card had left.
    ``whole`` says that the list of chunks was complete: their sum is what the allocator says is in use.
    ``by_op`` where the log tells who allocated. ``repeats`` counts dumps of the same kind that followed. ``jax``: JAX
    wrote it, whose settings are others than TensorFlow's.

    ``device_bytes`` and ``free_at_start_bytes`` are the card's, as the log tells them when the run begins.
    ``others_bytes`` is what other processes have by the log's own words, ``outside_bytes`` what this process has beside
    the pool. ``refused_bytes`` is the most that the driver refused to the pool. ``sure`` is False where something else
    than memory may be the reason; ``other_reason`` names it where the log does. ``who`` names the library, or what
    killed the process.
    """

    allocator: str
    request: Request
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
    by_size: tuple[Holder, ...] = ()
    by_op: tuple[Holder, ...] = ()
    whole: bool = False
    repeats: int = 0
    used_share: float | None = None  # of the pool, as the map at the dump's end draws it: from above
    jax: bool = False
    kind: Kind = Kind.REQUEST
    kept_in: Pool | None = None  # where the log says it otherwise than by the allocator's name
    device_bytes: int | None = None
    free_at_start_bytes: int | None = None
    others_bytes: int | None = None
    outside_bytes: int | None = None
    refused_bytes: int | None = None
    sure: bool = True
    by_part: tuple[Holder, ...] = ()  # of a program: its arguments, its temporaries
    other_reason: str = ""
    who: str = ""

    @property
    def pool(self) -> Pool:
        if self.kept_in is not None:
            return self.kept_in
        name = self.allocator.lower()
        if "host" in name:
            return Pool.PINNED
        return Pool.HOST if "cpu" in name or (not name and "CPU" in self.request.device) else Pool.DEVICE


@dataclass(frozen=True)
class Advice:
    """What to do; ``gain_bytes`` is what it frees or makes usable, None where that has to be tried."""

    says: str
    gain_bytes: int | None = None
    enough: bool | None = None


@dataclass(frozen=True)
class Questions:
    """What is answered before any advice; None where the log does not tell.

    ``alone`` says that the request exceeds the whole device by itself. ``held_bytes`` of ``whole_bytes`` is what
    ``held_by`` had before. ``constant`` says that it is a constant made from an array.
    """

    alone: bool | None = None
    held_by: HeldBy | None = None
    held_bytes: int | None = None
    whole_bytes: int | None = None
    constant: bool | None = None


@dataclass(frozen=True)
class Finding:
    """A dump, judged: one sentence, and what to do, best first."""

    dump: Dump
    outcome: Outcome
    says: str
    advice: tuple[Advice, ...] = ()
    purpose: Purpose = Purpose.UNKNOWN
    questions: Questions = Questions()


@dataclass(frozen=True)
class Exhaustion:
    """All that one log says of memory. ``findings`` has the most telling first.

    ``retries`` counts, by allocator, requests that failed and were met otherwise: the sign of a memory nearly full.
    Those of them that exceed the whole pool (``oversized``, of ``pool_bytes``) are no such sign.
    """

    path: str
    bytes: int
    lines: int
    findings: tuple[Finding, ...] = ()
    dumps: int = 0
    retries: Mapping[str, int] = field(default_factory=dict)
    retried_bytes: Mapping[str, int] = field(default_factory=dict)  # the most that one of these asked for
    oversized: Mapping[str, int] = field(default_factory=dict)
    pool_bytes: Mapping[str, int] = field(default_factory=dict)
    refusals: int = 0  # of the driver, to a pool that wanted to grow
    refused_bytes: int = 0  # the most that one of these asked for
    host_refusals: int = 0  # those of them for pinned memory of the host
    jax: bool = False
    notes: tuple[str, ...] = ()
