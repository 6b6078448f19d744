"""Why a run was out of memory, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Struct, field

from slowtrain import __version__
from slowtrain.number_text import format_count
from slowtrain.report import wording
from slowtrain.report.documents import PlaceDocument, Tool, at, build_document, json_text
from slowtrain.report.terminal import Terminal, joined_lines, readable_width
from slowtrain.shared.exhaustion import (
    Advice,
    Dump,
    Exhaustion,
    FailureKind,
    FailureOutcome,
    HeldBy,
    JudgedDump,
    MemoryHolder,
    PoolKind,
    Purpose,
)

SCHEMA = "slowtrain.oom/1"
MAX_HOLDERS = 5
MAX_OTHER_DUMPS = 4
BAR_COLUMNS = 20


def oom_text(found: Exhaustion, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """The answer first, then what held the memory, what to do, and the other dumps."""
    return joined_lines(_text_lines(found, Terminal(readable_width(width), colour, unicode)))


def oom_headline(found: Exhaustion) -> str:
    if found.findings:
        return found.findings[0].says
    times = sum(found.retries.values()) - (0 if is_harmless(found) else sum(found.oversized.values()))
    if not times and found.host_refusals == found.refusals:
        return (
            f"no request failed in this log, but the driver refused pinned memory of the host {found.refusals:,} "
            "times: the host, not the card, has little left"
        )
    if not times:
        return (
            f"no request failed in this log, but the driver refused {found.refusals:,} to a pool that wanted to grow: "
            "others hold the card's memory"
        )
    if is_harmless(found):
        most_bytes, pool_bytes = max(found.retried_bytes.values()), max(found.pool_bytes.values())
        return (
            f"nothing failed: a workspace of up to {wording.bytes_text(most_bytes)}, which exceeds the whole pool of "
            f"{wording.bytes_text(pool_bytes)}, was refused while algorithms were tried out; this is harmless"
        )
    requests = format_count(times, "request")
    if found.jax:
        most = wording.bytes_text(max(found.retried_bytes.values(), default=0))
        return f"nothing failed for lack of memory, but {requests} of up to {most} found no room"
    return f"nothing failed for lack of memory, but {requests} found none at first: it is nearly full"


def is_harmless(found: Exhaustion) -> bool:
    """Whether every refused request was for a workspace larger than the whole pool."""
    times = sum(found.retries.values())
    return not found.findings and times > 0 and sum(found.oversized.values()) == times


def _text_lines(found: Exhaustion, out: Terminal) -> Iterator[str]:
    yield from out.hanging("", oom_headline(found), style="bold red" if found.findings else "bold yellow")
    if found.findings:
        yield from _first_finding(found.findings[0], out)
        yield from _other_findings(found.findings[1:], out)
    notes = [*found.notes, *_retry_notes(found)]
    if notes:
        yield ""
    for note in notes:
        yield from out.hanging("Note: ", note, lines=4)


def _first_finding(one: JudgedDump, out: Terminal) -> Iterator[str]:
    dump = one.dump
    yield ""
    figures = ", ".join(f"{name} {value}" for name, value in memory_facts(dump))
    for name, value in [*request_facts(dump), *question_facts(one), *([("memory", figures)] if figures else [])]:
        yield from out.hanging(f"  {name:<11}", value, lines=4)
    yield from _holder_lines(f"What held it, by {holder_noun(dump)}", dump.by_op, dump.in_use_bytes, out)
    yield from _holder_lines("What held it, by size", dump.by_size, dump.in_use_bytes, out)
    yield from _holder_lines("What the program needs", dump.by_part, None, out)
    if one.advice:
        yield from out.section("What to do")
    for number, advice in enumerate(one.advice, 1):
        yield from out.hanging(f"  {number}. ", advice_text(advice), lines=4)


def _holder_lines(
    title: str, holders: Sequence[MemoryHolder], in_use_bytes: int | None, out: Terminal
) -> Iterator[str]:
    if not holders:
        return
    yield from out.section(title)
    whole = in_use_bytes or sum(h.bytes for h in holders) or 1
    room = max(out.width - BAR_COLUMNS - 15, 10)
    for one in holders[:MAX_HOLDERS]:
        bar = out.style(out.bar(one.bytes / whole, BAR_COLUMNS), "magenta")
        yield f"  {wording.bytes_text(one.bytes):>9}  {out.column(holder_text(one), room)}  {bar}"
    rest = whole - sum(h.bytes for h in holders[:MAX_HOLDERS])
    if in_use_bytes and rest > 0.005 * whole:
        yield f"  {wording.bytes_text(rest):>9}  all others"


def _other_findings(rest: Sequence[JudgedDump], out: Terminal) -> Iterator[str]:
    if not rest:
        return
    yield from out.section(f"{len(rest)} other {'kind' if len(rest) == 1 else 'kinds'} of dump")
    for one in rest[:MAX_OTHER_DUMPS]:
        rank = f"rank {one.dump.rank}, " if one.dump.rank else ""
        yield out.fit_end("  ", f"line {one.dump.line:,}, {rank}{one.dump.allocator}: {one.says}")
    if len(rest) > MAX_OTHER_DUMPS:
        yield f"  and {len(rest) - MAX_OTHER_DUMPS} more (--json has all)"


def _retry_notes(found: Exhaustion) -> Iterator[str]:
    for allocator, count in sorted(found.retries.items()):
        oversized = found.oversized.get(allocator, 0)
        if oversized:
            yield (
                f"{allocator} refused {format_count(oversized, 'request')} for a workspace larger than the whole pool "
                f"of {wording.bytes_text(found.pool_bytes.get(allocator, 0))}: cuDNN tries faster algorithms that way, "
                "and goes on with another; a smaller batch may make the faster one fit"
            )
        count -= oversized
        if not count:
            continue
        times = "once" if count == 1 else f"{count:,} times"
        if found.jax:
            yield (
                f"{allocator} could not give what was asked {times}, and the program goes on: XLA asks for "
                "such while it compiles, to try algorithms out, and leaves out those that do not fit, which may be "
                "the fastest"
            )
            continue
        yield (
            f"{allocator} could not give what was asked {times} and the op went on with less workspace, "
            "which is slower: memory is nearly full"
        )


# -- words that the page uses as well


def request_facts(dump: Dump) -> list[tuple[str, str]]:
    """The known facts of the request: name and value."""
    asked = dump.request
    found: list[tuple[str, str]] = []
    if asked.needed_bytes is not None:
        shape = f" for {asked.dtype or 'a tensor'} {list(asked.shape)}" if asked.shape is not None else ""
        found.append(("asked for", f"{wording.bytes_text(asked.needed_bytes)}{shape}"))
    if asked.op:
        found.append(("by op", asked.op))
    if asked.place is not None:
        found.append(("in", str(asked.place)))
    if asked.also:
        found.append(("also in", ", ".join(map(str, asked.also))))
    whose = f", rank {dump.rank}" if dump.rank else ""
    times = f", and {dump.repeats:,} times more" if dump.repeats else ""
    name, who = ("killed by", dump.who) if dump.kind is FailureKind.KILL else ("allocator", dump.allocator)
    found.append((name, f"{who or 'unknown'} ({dump.pool}){whose}, line {dump.line:,}{times}"))
    return found


def question_facts(one: JudgedDump) -> list[tuple[str, str]]:
    """Answers to the three questions that come before any advice, as far as the log has them."""
    asked = one.questions
    rows: list[tuple[str, str]] = []
    whole = "device" if one.dump.pool is PoolKind.DEVICE else "pool"
    if asked.alone is not None:
        rows.append(("alone", f"it {'exceeds the whole' if asked.alone else 'would fit into an empty'} {whole}"))
    if asked.held_by is not None and asked.held_by is not HeldBy.NOBODY:
        bytes_ = "" if asked.held_bytes is None else f": {wording.bytes_text(asked.held_bytes)}"
        bytes_ += f" of {wording.bytes_text(asked.whole_bytes)}" if bytes_ and asked.whole_bytes is not None else ""
        rows.append(("held by", f"{asked.held_by}, before{bytes_}"))
    if asked.constant:
        rows.append(("constant", "made from an array"))
    return rows


def memory_facts(dump: Dump) -> list[tuple[str, str]]:
    pieces = f" in {dump.free_pieces:,} piece{'' if dump.free_pieces == 1 else 's'}" if dump.free_pieces else ""
    rows = [
        ("limit", dump.limit_bytes, ""),
        ("in use", dump.in_use_bytes, ""),
        ("free", dump.free_bytes, pieces),
        ("largest free piece", dump.largest_free_bytes, ""),
        ("peak", dump.peak_bytes, ""),
        ("left on the card", dump.driver_free_bytes, ""),
        ("the card's own", dump.device_bytes if dump.device_bytes != dump.limit_bytes else None, ""),
    ]
    return [(name, wording.bytes_text(value) + more) for name, value, more in rows if value is not None]


def holder_noun(dump: Dump) -> str:
    """What a holder's name stands for. JAX's allocator knows whole programs only."""
    return "program" if dump.jax and dump.whole else "op"


def holder_text(one: MemoryHolder) -> str:
    if one.name:
        padded = f", {one.expansion:g} times as large by padding" if (one.expansion or 1) >= 1.5 else ""
        where = f" at {one.place}" if one.place is not None else ""
        return (f"{one.name} ({one.count:,} pieces)" if one.count > 1 else one.name) + where + padded
    pieces = "1 piece" if one.count == 1 else f"{one.count:,} pieces"
    return f"{pieces} of {wording.bytes_text(one.each_bytes)}"


def advice_text(advice: Advice) -> str:
    """The advice and the bytes that it saves."""
    gain = (
        f" ({wording.bytes_text(advice.gain_bytes)}{', enough' if advice.enough else ''})" if advice.gain_bytes else ""
    )
    return advice.says + gain


# -- JSON


class RequestDocument(Struct):
    bytes: Annotated[int | None, at("dump.request.bytes")]
    rounded_bytes: Annotated[int | None, at("dump.request.rounded_bytes")]
    shape: Annotated[tuple[int, ...] | None, at("dump.request.shape")]
    dtype: Annotated[str | None, at("dump.request.dtype")]
    op: Annotated[str | None, at("dump.request.op")]
    device: Annotated[str | None, at("dump.request.device")]
    purpose: Purpose
    place: Annotated[PlaceDocument | None, at("dump.request.place")]
    other_places: Annotated[tuple[PlaceDocument, ...], at("dump.request.also")]


class QuestionsDocument(Struct):
    alone: bool | None = field(name="exceeds_device_alone")
    held_by: HeldBy | None = field(name="held_before_by")
    held_bytes: int | None = field(name="held_before_bytes")
    whole_bytes: int | None = field(name="of_bytes")
    constant: bool | None = field(name="constant_of_array")


class SizeHolder(Struct):
    bytes: int
    count: int
    each_bytes: int | None


class OpHolder(Struct):
    name: str = field(name="op")
    bytes: int
    count: int
    place: PlaceDocument | None
    expansion: float | None


class PartHolder(Struct):
    name: str = field(name="part")
    bytes: int


class DumpDocument(Struct):
    outcome: FailureOutcome
    says: str
    allocator: Annotated[str, at("dump.allocator")]
    pool: Annotated[PoolKind, at("dump.pool")]
    rank: Annotated[str | None, at("dump.rank")]
    line: Annotated[int, at("dump.line")]
    repeats: Annotated[int, at("dump.repeats")]
    request: RequestDocument
    kind: Annotated[FailureKind, at("dump.kind")]
    by: Annotated[str | None, at("dump.who")]
    sure: Annotated[bool, at("dump.sure")]
    questions: QuestionsDocument
    device_bytes: Annotated[int | None, at("dump.device_bytes")]
    free_at_start_bytes: Annotated[int | None, at("dump.free_at_start_bytes")]
    driver_refused_bytes: Annotated[int | None, at("dump.refused_bytes")]
    limit_bytes: Annotated[int | None, at("dump.limit_bytes")]
    pool_bytes: Annotated[int | None, at("dump.pool_bytes")]
    in_use_bytes: Annotated[int | None, at("dump.in_use_bytes")]
    peak_bytes: Annotated[int | None, at("dump.peak_bytes")]
    free_bytes: Annotated[int | None, at("dump.free_bytes")]
    largest_free_bytes: Annotated[int | None, at("dump.largest_free_bytes")]
    free_pieces: Annotated[int | None, at("dump.free_pieces")]
    growth_bytes: Annotated[int | None, at("dump.growth_bytes")]
    driver_free_bytes: Annotated[int | None, at("dump.driver_free_bytes")]
    regions: Annotated[int | None, at("dump.regions")]
    complete: Annotated[bool, at("dump.whole")]
    by_size: Annotated[tuple[SizeHolder, ...], at("dump.by_size")]
    by_op: Annotated[tuple[OpHolder, ...], at("dump.by_op")]
    by_part: Annotated[tuple[PartHolder, ...], at("dump.by_part")]
    advice: tuple[Advice, ...]


class LogDocument(Struct):
    path: str
    bytes: int
    lines: int


class OomDocument(Struct):
    """What slowtrain oom --json writes. The first finding is the most informative one."""

    schema: Literal["slowtrain.oom/1"]
    tool: Tool
    log: LogDocument
    says: str
    outcome: FailureOutcome | None
    harmless: bool
    dumps: int
    findings: tuple[DumpDocument, ...]
    retries: Mapping[str, int]
    oversized: Mapping[str, int] = field(name="retries_larger_than_pool")
    refusals: int = field(name="driver_refusals")
    notes: tuple[str, ...]


def oom_json(found: Exhaustion) -> str:
    return json_text(oom_document(found))


def oom_document(found: Exhaustion) -> dict[str, Any]:
    return build_document(
        OomDocument,
        found,
        schema=SCHEMA,
        tool={"version": __version__},
        log=found,
        says=oom_headline(found),
        outcome=found.findings[0].outcome if found.findings else None,
        harmless=is_harmless(found),
        findings=[build_document(DumpDocument, one, request=one) for one in found.findings],
    )
