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
    UNKNOWN = "cannot tell"  # the log does not hold what it takes to say


class Purpose(Text, Enum):
    """What a piece was for, as far as the log tells: the first two are as large whatever the batch."""

    UPDATE = "a variable's update"
    VARIABLE = "the making of a variable"
    STEP = "a step"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Request:
    """What was asked for; ``rounded_bytes`` is what the allocator makes of it.

    ``within`` is what its traceback is about, where that tells.
    """

    bytes: int | None = None
    rounded_bytes: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    op: str = ""
    device: str = ""
    place: Place | None = None
    within: Purpose | None = None

    @property
    def needed(self) -> int | None:
        return self.rounded_bytes if self.rounded_bytes is not None else self.bytes


@dataclass(frozen=True)
class Holder:
    """Memory in use of one kind: ``count`` pieces of ``each_bytes`` (None: of several sizes), made by ``name``."""

    bytes: int
    count: int
    each_bytes: int | None = None
    name: str = ""


@dataclass(frozen=True)
class Dump:
    """One allocator at the moment when it had no room.

    ``growth_bytes`` is what it was still allowed to ask of the driver. ``driver_free_bytes`` is what the card had left.
    ``whole`` says that the list of chunks was complete: their sum is what the allocator says is in use.
    ``by_op`` where the log tells who allocated. ``repeats`` counts dumps of the same kind that followed. ``jax``: JAX
    wrote it, whose settings are others than TensorFlow's.
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

    @property
    def pool(self) -> Pool:
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
class Finding:
    """A dump, judged: one sentence, and what to do, best first."""

    dump: Dump
    outcome: Outcome
    says: str
    advice: tuple[Advice, ...] = ()
    purpose: Purpose = Purpose.UNKNOWN


@dataclass(frozen=True)
class Exhaustion:
    """All that one log says of memory. ``findings`` has the most telling first.

    ``retries`` counts, by allocator, requests that failed and were met otherwise: the sign of a memory nearly full.
    """

    path: str
    bytes: int
    lines: int
    findings: tuple[Finding, ...] = ()
    dumps: int = 0
    retries: Mapping[str, int] = field(default_factory=dict)
    retried_bytes: Mapping[str, int] = field(default_factory=dict)  # the most that one of these asked for
    refusals: int = 0  # of the driver, to a pool that wanted to grow
    jax: bool = False
    notes: tuple[str, ...] = ()
