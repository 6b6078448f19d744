"""A dump whose lines are still being read, and the cards that the log names."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from slowtrain.oom.log_text import SIZE, TracebackState, parse_dimensions, parse_size
from slowtrain.shared.exhaustion import Dump, FailureKind, MemoryHolder, MemoryRequest, PoolKind
from slowtrain.shared.vocabulary import Place

MAX_CARDS = 64
_FOUND = re.compile(rb"Found device (\d{1,3}) with properties")
_TOTAL_AND_FREE = re.compile(rb"totalMemory: " + SIZE + rb" freeMemory: " + SIZE)  # TensorFlow 1.4 to 1.13
_TOTAL = re.compile(rb"\s*Total memory: " + SIZE + rb"\s*\Z")  # until 1.3
_FREE = re.compile(rb"\s*Free memory: " + SIZE + rb"\s*\Z")
_DEVICE = re.compile(rb"deviceMemorySize: " + SIZE)  # 2.1 to 2.6
_CREATED = re.compile(rb"GPU:(\d{1,3}) with (\d{1,9}) MB memory")  # its MB are MiB
_BACKEND = re.compile(rb"XLA backend (?:allocating|will use up to) (\d{1,19}) bytes on device (\d{1,3})")
_INDEX = re.compile(r"(?:GPU|gpu)_(\d{1,3})_bfc")


@dataclass
class DeviceMemory:
    total_bytes: int | None = None
    free_bytes: int | None = None  # before the run allocated any
    pool_bytes: int | None = None


def read_device_line(cards: dict[int, DeviceMemory], current: int | None, line: bytes) -> int | None:
    """Stores what a line says about a card in ``cards``. ``current`` is the card that the previous lines were about."""
    if found := _FOUND.search(line):
        current = int(found[1])
    elif found := _TOTAL_AND_FREE.search(line):
        card = _find_or_add_card(cards, current or 0)
        card.total_bytes, card.free_bytes = parse_size(found[1], found[2]), parse_size(found[3], found[4])
    elif found := _DEVICE.search(line):
        _find_or_add_card(cards, current or 0).total_bytes = parse_size(found[1], found[2])
    elif found := _CREATED.search(line):
        _find_or_add_card(cards, int(found[1])).pool_bytes = int(found[2]) << 20
    elif found := _BACKEND.search(line):
        _find_or_add_card(cards, int(found[2])).pool_bytes = parse_size(found[1])
    elif current is not None and (found := _TOTAL.match(line)):
        _find_or_add_card(cards, current).total_bytes = parse_size(found[1], found[2])
    elif current is not None and (found := _FREE.match(line)):
        _find_or_add_card(cards, current).free_bytes = parse_size(found[1], found[2])
    return current


def card_of_allocator(cards: dict[int, DeviceMemory], allocator: str) -> DeviceMemory | None:
    """The card of an allocator; if its name does not identify one, the only card."""
    index = _INDEX.search(allocator)
    if index is not None:
        return cards.get(int(index[1]))
    return next(iter(cards.values())) if len(cards) == 1 else None


def _find_or_add_card(cards: dict[int, DeviceMemory], index: int) -> DeviceMemory:
    return cards.setdefault(index if len(cards) < MAX_CARDS else next(iter(cards)), DeviceMemory())


MAX_DISTINCT_SIZES = 20_000  # distinct sizes or ops that are kept apart; the rest are added up as one
MAX_HOLDERS = 12  # that are kept of a dump
KERNEL_NAME = "the kernel"  # also ends processes for a container's limit and for Slurm's
MAX_OTHER_PLACES = 4  # lines of the script besides the first
ROUNDING_SHARE = 0.01  # of a figure that the log prints with three digits
OTHER_OPS = "all others"
# Share of the memory in use. Holders with less should not be reported as what held the memory.
MIN_LISTED_SHARE = 0.5
DumpKey = tuple[str, str, int | None, str]  # identifies a kind of dump: rank, allocator, bytes requested, op


@dataclass
class DumpBuilder:
    """What is known so far. ``sums`` are the log's own totals by size, used if the list of chunks is incomplete."""

    allocator: str
    line: int
    rank: str = ""
    request: MemoryRequest = field(default_factory=MemoryRequest)
    stats: dict[str, int] = field(default_factory=dict)
    sizes: Counter[int] = field(default_factory=Counter)
    ops: dict[str, list[int]] = field(default_factory=dict)
    sums: dict[int, int] = field(default_factory=dict)
    used_bytes: int = 0
    used: int = 0
    free_bytes: int = 0
    free: int = 0
    largest_bytes: int = 0
    region_bytes: int = 0
    regions: int = 0
    bins_bytes: int = 0
    bins: int = 0
    total_bytes: int | None = None
    pool_bytes: int | None = None
    limit_bytes: int | None = None
    growth_bytes: int | None = None
    driver_free_bytes: int | None = None
    stated_free_bytes: int | None = None  # from the summary line, with three digits
    stated_pool_bytes: int | None = None
    in_last_bin: bool = False  # the pieces that follow are all free pieces of large size
    largest_stated_bytes: int | None = None  # the largest of those
    usable_bytes: int | None = None  # the largest free piece that this request could use
    map: bytes = b""  # each letter is a hundredth of the pool; _ means that nothing is in use
    listed: bool = False  # the log lists chunks or buffers for this dump
    places: dict[str, Place] = field(default_factory=dict)  # by op
    expansions: dict[str, float] = field(default_factory=dict)  # by op
    newest_op: str = ""
    parts: dict[str, int] = field(default_factory=dict)  # of a program, by name
    kind: FailureKind = FailureKind.REQUEST
    kept_in: PoolKind | None = None
    device_bytes: int | None = None
    others_bytes: int | None = None
    outside_bytes: int | None = None
    sure: bool = True
    who: str = ""

    def ask(self, bytes_: int | None, *, shape: bytes | None = None, dtype: str = "") -> None:
        dims = parse_dimensions(shape) if shape is not None else None
        self.request = replace(self.request, bytes=bytes_, shape=dims, dtype=dtype)

    def add_region(self, bytes_: int) -> None:
        self.regions += 1
        self.region_bytes += bytes_

    def add_chunk(self, in_use: bool, bytes_: int, op: str = "") -> None:
        self.listed = True
        if not in_use:
            self.free += 1
            self.free_bytes += bytes_
            self.largest_bytes = max(self.largest_bytes, bytes_)
            return
        self.used += 1
        self.used_bytes += bytes_
        self.sizes[bytes_ if bytes_ in self.sizes or len(self.sizes) < MAX_DISTINCT_SIZES else 0] += 1
        if op:
            self.add_op_memory(op, bytes_)

    def add_op_memory(self, op: str, bytes_: int, count: int = 1) -> None:
        """Adds memory of an op that the log names."""
        one = self.ops.setdefault(op if op in self.ops or len(self.ops) < MAX_DISTINCT_SIZES else OTHER_OPS, [0, 0])
        one[0] += bytes_
        one[1] += count
        self.newest_op = op

    def dump(self) -> Dump:
        """The finished value; what the log does not say stays None."""
        limit = self.limit_bytes if self.limit_bytes is not None else self.stats.get("Limit") or None
        # The sum has three digits, the statistics mostly have all.
        stated_bytes = self.stats.get("InUse", self.total_bytes)
        whole = (
            self.listed
            and stated_bytes is not None
            and abs(self.used_bytes - stated_bytes) <= ROUNDING_SHARE * max(stated_bytes, 1)
        )
        # The list may hold chunks of another dump, or lack its beginning. If it ends before its sum, nobody knows how
        # much is missing.
        in_use = self.used_bytes if whole else stated_bytes
        pool = self.pool_bytes if self.pool_bytes is not None else self._pool_size(whole)
        growth = self.growth_bytes
        if growth is None and limit is not None and pool is not None:
            growth = max(limit - pool, 0)
            growth = 0 if growth <= ROUNDING_SHARE * limit else growth  # the limit has three digits only
        free, largest = (self.free_bytes, self.largest_bytes) if whole else (self.stated_free_bytes, self.usable_bytes)
        if self.usable_bytes is not None and largest is not None and self.usable_bytes < largest * (1 - ROUNDING_SHARE):
            largest = self.usable_bytes  # the largest piece lies at the end that is reserved for other requests
        if largest is None and not whole:
            largest = self.largest_stated_bytes
        if free is None and pool is not None and in_use is not None:
            free = max(pool - in_use, 0)
        return Dump(
            self.allocator, self.request, self.line, self.rank, limit, pool, in_use, self.stats.get("MaxInUse"),
            free, largest, self.free if whole else None, self.regions if whole and self.regions else None, growth,
            self.driver_free_bytes, self._holders_by_size(whole), self._holders_by_op(), whole,
            used_share=self._used_share(),
            kind=self.kind, kept_in=self.kept_in, device_bytes=self.device_bytes, others_bytes=self.others_bytes,
            outside_bytes=self.outside_bytes, sure=self.sure, who=self.who, by_part=self._holders_by_part(),
        )  # fmt: skip

    def _used_share(self) -> float | None:
        return None if not self.map else 1 - self.map.count(b"_") / len(self.map)

    def _pool_size(self, whole: bool) -> int | None:
        if whole and self.region_bytes:
            return self.region_bytes
        if whole:
            return self.used_bytes + self.free_bytes
        return self.stated_pool_bytes or self.bins_bytes or None

    def _holders_by_size(self, whole: bool) -> tuple[MemoryHolder, ...]:
        sizes = self.sizes if whole or not self.sums else self.sums
        if sizes is self.sizes and not whole and self.used_bytes + self.free_bytes < MIN_LISTED_SHARE * self.bins_bytes:
            return ()  # the list is cut after its first lines
        found = [MemoryHolder(each * count, count, each) for each, count in sizes.items() if each]
        return tuple(sorted(found, key=lambda h: (-h.bytes, -(h.each_bytes or 0)))[:MAX_HOLDERS])

    def _holders_by_part(self) -> tuple[MemoryHolder, ...]:
        found = [MemoryHolder(bytes_, 1, None, part) for part, bytes_ in self.parts.items()]
        return tuple(sorted(found, key=lambda h: (-h.bytes, h.name)))

    def _holders_by_op(self) -> tuple[MemoryHolder, ...]:
        found = [
            MemoryHolder(bytes_, count, None, op, self.places.get(op), self.expansions.get(op))
            for op, (bytes_, count) in self.ops.items()
        ]
        return tuple(sorted(found, key=lambda h: (-h.bytes, h.name))[:MAX_HOLDERS])


@dataclass
class LogRank:
    """One writer of the log: its open dumps by thread, and the state of its newest traceback."""

    name: str
    open: dict[str, DumpBuilder] = field(default_factory=dict)
    open_dump: DumpBuilder | None = None  # the dump that the following lines without a prefix belong to
    begun: bytes = b""  # the beginning of a line that the next one continues
    wrapped: list[bytes] = field(default_factory=list)  # the lines of one broken sentence
    listing: str = ""  # which list is open: stats, usage, buffers, histogram
    trail: TracebackState = field(default_factory=TracebackState)
    last: DumpKey | None = None  # key of the dump that ended last
    cards: dict[int, DeviceMemory] = field(default_factory=dict)
    card: int | None = None  # the card whose properties the next lines give
    refused_bytes: int = 0  # the largest request that the driver refused
    host_bytes: int = 0  # the largest host allocation that TensorFlow warned about
    mismatch: bool = False  # cuDNN's version differs from the one the program was built for
    kill_limit_bytes: int | None = None  # of the container, from the kernel's report
    usage: tuple[int, int] | None = None  # free and total bytes, from cuDNN's failure message
    defines: DumpKey | None = None  # the dump whose op the following frames define
    ran: MemoryRequest = field(default_factory=MemoryRequest)  # what was known of it before


def find_owner(dumps: dict[DumpKey, Dump], request: MemoryRequest, rank: str, allocator: str) -> DumpKey | None:
    """The dump that an error of ``request`` belongs to: by its op, else the newest of its rank and allocator.

    Ops that run beside the failed one may fail as well before Python reports the first failure.
    """
    keys = [
        key
        for key, dump in reversed(dumps.items())
        if dump.rank == rank and (not allocator or not dump.allocator or dump.allocator == allocator)
    ]
    shapes = (None, request.shape)
    fitting = [key for key in keys if request.shape is None or dumps[key].request.shape in shapes]
    if not keys or keys[0] not in fitting:
        return None
    named = (key for key in fitting if request.op and f"/{dumps[key].request.op}".endswith(f"/{request.op}"))
    return next(named, keys[0])


def is_same_op(one: str, other: str) -> bool:
    """Whether both names are of one op; an allocator may omit the outer scopes."""
    return not one or not other or f"/{one}".endswith(f"/{other}") or f"/{other}".endswith(f"/{one}")


def with_request_facts(dump: Dump, **more: object) -> Dump:
    """``dump`` with facts about its request that came later; known facts stay."""
    request = dump.request
    lacking = {k: v for k, v in more.items() if v and not getattr(request, k)}
    return replace(dump, request=replace(request, **lacking)) if lacking else dump  # type: ignore[arg-type]


def with_origin(dump: Dump, place: Place, ran: MemoryRequest | None = None) -> Dump:
    """``dump`` with the line that created its op; the line that ran it is kept besides."""
    request = dump.request if ran is None else replace(dump.request, place=ran.place, also=ran.also)
    if request.place == place:
        return replace(dump, request=request)
    lines = (*request.also, request.place)
    also = tuple(dict.fromkeys(one for one in lines if one is not None and one != place))
    return replace(dump, request=replace(request, place=place, also=also[:MAX_OTHER_PLACES]))


def merge_reports(old: Dump, new: Dump) -> Dump:
    """Merges two reports of one library failure or one kill. The more certain one names the culprit."""
    more_exact = old.kind is FailureKind.KILL and new.sure and old.who == KERNEL_NAME
    best, other = (new, old) if (new.sure and not old.sure) or more_exact else (old, new)
    place = best.request.place or other.request.place
    request = replace(best.request, place=place, within=best.request.within or other.request.within)
    # Until Linux 4.19 the kernel first names a process, and then the one that it killed, which may be a child of it.
    holder = best if best.in_use_bytes is not None or other.in_use_bytes is None else other
    in_use, allocator = holder.in_use_bytes, holder.allocator or best.allocator or other.allocator
    return replace(best, line=old.line, request=request, in_use_bytes=in_use, allocator=allocator)
