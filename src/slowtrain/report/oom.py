"""What ran out of memory, and why, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from slowtrain import __version__
from slowtrain.model import Place
from slowtrain.model.answers.exhaustion import (
    Advice,
    Dump,
    Exhaustion,
    FailureKind,
    HeldBy,
    JudgedDump,
    MemoryHolder,
    PoolKind,
)
from slowtrain.report import json as documents
from slowtrain.report import wording
from slowtrain.report.terminal import Paper

SCHEMA = "slowtrain.oom/1"
WIDEST, NARROWEST = 110, 40
HOLDERS = 5
OTHERS = 4  # further dumps in the text
BAR = 20


def render(found: Exhaustion, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """The answer first, then what held the memory, what to do, and the other dumps."""
    paper = Paper(max(min(width, WIDEST), NARROWEST), colour, unicode)
    return "\n".join(line.rstrip() for line in _lines(found, paper)) + "\n"


def headline(found: Exhaustion) -> str:
    if found.findings:
        return found.findings[0].says
    times = sum(found.retries.values()) - (0 if harmless(found) else sum(found.oversized.values()))
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
    if harmless(found):
        most_bytes, pool_bytes = max(found.retried_bytes.values()), max(found.pool_bytes.values())
        return (
            f"nothing failed: a workspace of up to {wording.size(most_bytes)}, which exceeds the whole pool of "
            f"{wording.size(pool_bytes)}, was refused while algorithms were tried out; this is harmless"
        )
    if found.jax:
        most = wording.size(max(found.retried_bytes.values(), default=0))
        return f"nothing failed for lack of memory, but {requests(times)} of up to {most} found no room"
    return f"nothing failed for lack of memory, but {requests(times)} found none at first: it is nearly full"


def harmless(found: Exhaustion) -> bool:
    """Whether all that was refused are workspaces that no such pool could ever give."""
    times = sum(found.retries.values())
    return not found.findings and times > 0 and sum(found.oversized.values()) == times


def requests(count: int) -> str:
    return f"{count:,} request{'' if count == 1 else 's'}"


def _lines(found: Exhaustion, paper: Paper) -> Iterator[str]:
    for line in paper.wrap(headline(found), paper.width):
        yield paper.style(line, "bold", "red" if found.findings else "yellow")
    if found.findings:
        yield from _first(found.findings[0], paper)
        yield from _others(found, paper)
    notes = [*found.notes, *_retried(found)]
    if notes:
        yield ""
    for note in notes:
        yield from _wrapped(paper, "Note: ", note)


def _first(one: JudgedDump, paper: Paper) -> Iterator[str]:
    yield ""
    for name, said in [*request(one.dump), *answers(one)]:
        yield from _wrapped(paper, f"  {name:<11}", said)
    rows = memory(one.dump)
    if rows:
        yield from _wrapped(paper, f"  {'memory':<11}", ", ".join(f"{name} {said}" for name, said in rows))
    for title, holders in (
        (f"What held it, by {maker(one.dump)}", one.dump.by_op),
        ("What held it, by size", one.dump.by_size),
        ("What the program needs", one.dump.by_part),
    ):
        if holders:
            yield ""
            yield paper.style(title, "bold")
            yield from _holders(holders, None if holders is one.dump.by_part else one.dump.in_use_bytes, paper)
    if one.advice:
        yield ""
        yield paper.style("What to do", "bold")
        for number, advice in enumerate(one.advice, 1):
            yield from _wrapped(paper, f"  {number}. ", told(advice))


def _holders(holders: tuple[MemoryHolder, ...], in_use_bytes: int | None, paper: Paper) -> Iterator[str]:
    whole = in_use_bytes or sum(h.bytes for h in holders) or 1
    room = max(paper.width - BAR - 15, 10)
    for one in holders[:HOLDERS]:
        said = paper.pad(paper.fit(holder(one), room), room)
        bar = paper.style(paper.bar(one.bytes / whole, BAR), "magenta")
        yield f"  {paper.pad(wording.size(one.bytes), 9, right=True)}  {said}  {bar}"
    left = whole - sum(h.bytes for h in holders[:HOLDERS])
    if in_use_bytes and left > 0.005 * whole:
        yield f"  {paper.pad(wording.size(left), 9, right=True)}  all others"


def _others(found: Exhaustion, paper: Paper) -> Iterator[str]:
    rest = found.findings[1:]
    if not rest:
        return
    yield ""
    yield paper.style(f"{len(rest)} other {'kind' if len(rest) == 1 else 'kinds'} of dump", "bold")
    for one in rest[:OTHERS]:
        whose = f"rank {one.dump.rank}, " if one.dump.rank else ""
        yield f"  {paper.fit(f'line {one.dump.line:,}, {whose}{one.dump.allocator}: {one.says}', paper.width - 2)}"
    if len(rest) > OTHERS:
        yield f"  and {len(rest) - OTHERS} more (--json has all)"


def _retried(found: Exhaustion) -> Iterator[str]:
    for allocator, count in sorted(found.retries.items()):
        oversized = found.oversized.get(allocator, 0)
        if oversized:
            yield (
                f"{allocator} refused {requests(oversized)} for a workspace larger than the whole pool of "
                f"{wording.size(found.pool_bytes.get(allocator, 0))}: cuDNN tries faster algorithms that way, and goes "
                "on with another; a smaller batch may make the faster one fit"
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


def _wrapped(paper: Paper, lead: str, text: str) -> Iterator[str]:
    for number, row in enumerate(paper.wrap(text, paper.width - len(lead), 4)):
        yield (lead if number == 0 else " " * len(lead)) + row


# -- words that the page uses too


def request(dump: Dump) -> list[tuple[str, str]]:
    """Name and value of what is known of the request."""
    asked = dump.request
    found: list[tuple[str, str]] = []
    if asked.needed is not None:
        shape = f" for {asked.dtype or 'a tensor'} {list(asked.shape)}" if asked.shape is not None else ""
        found.append(("asked for", f"{wording.size(asked.needed)}{shape}"))
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


def answers(one: JudgedDump) -> list[tuple[str, str]]:
    """The three questions that come before any advice, as far as the log answers them."""
    asked = one.questions
    rows: list[tuple[str, str]] = []
    whole = "device" if one.dump.pool is PoolKind.DEVICE else "pool"
    if asked.alone is not None:
        rows.append(("alone", f"it {'exceeds the whole' if asked.alone else 'would fit into an empty'} {whole}"))
    if asked.held_by is not None and asked.held_by is not HeldBy.NOBODY:
        bytes_ = "" if asked.held_bytes is None else f": {wording.size(asked.held_bytes)}"
        bytes_ += f" of {wording.size(asked.whole_bytes)}" if bytes_ and asked.whole_bytes is not None else ""
        rows.append(("held by", f"{asked.held_by}, before{bytes_}"))
    if asked.constant:
        rows.append(("constant", "made from an array"))
    return rows


def memory(dump: Dump) -> list[tuple[str, str]]:
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
    return [(name, wording.size(value) + more) for name, value, more in rows if value is not None]


def maker(dump: Dump) -> str:
    """What the names among the holders are of: JAX's allocator is told of whole programs."""
    return "program" if dump.jax and dump.whole else "op"


def holder(one: MemoryHolder) -> str:
    if one.name:
        padded = f", {one.expansion:g} times as large by padding" if (one.expansion or 1) >= 1.5 else ""
        where = f" at {one.place}" if one.place is not None else ""
        return (f"{one.name} ({one.count:,} pieces)" if one.count > 1 else one.name) + where + padded
    pieces = "1 piece" if one.count == 1 else f"{one.count:,} pieces"
    return f"{pieces} of {wording.size(one.each_bytes)}"


def told(advice: Advice) -> str:
    """What to do, with what it is worth."""
    gain = f" ({wording.size(advice.gain_bytes)}{', enough' if advice.enough else ''})" if advice.gain_bytes else ""
    return advice.says + gain


# -- JSON


def render_json(found: Exhaustion) -> str:
    return json.dumps(document(found), indent=2, allow_nan=False) + "\n"


def document(found: Exhaustion) -> dict[str, Any]:
    written: dict[str, Any] = documents.plain(
        {
            "schema": SCHEMA,
            "tool": {"version": __version__},
            "log": {"path": found.path, "bytes": found.bytes, "lines": found.lines},
            "says": headline(found),
            "outcome": found.findings[0].outcome if found.findings else None,
            "harmless": harmless(found),
            "dumps": found.dumps,
            "findings": [_finding(one) for one in found.findings],
            "retries": found.retries,
            "retries_larger_than_pool": found.oversized,
            "driver_refusals": found.refusals,
            "notes": found.notes,
        }
    )
    return written


def _finding(one: JudgedDump) -> dict[str, Any]:
    dump, asked = one.dump, one.dump.request
    return {
        "outcome": one.outcome,
        "says": one.says,
        "allocator": dump.allocator,
        "pool": dump.pool,
        "rank": dump.rank or None,
        "line": dump.line,
        "repeats": dump.repeats,
        "request": {
            "bytes": asked.bytes,
            "rounded_bytes": asked.rounded_bytes,
            "shape": asked.shape,
            "dtype": asked.dtype or None,
            "op": asked.op or None,
            "device": asked.device or None,
            "purpose": one.purpose,
            "place": _place(asked.place),
            "other_places": [_place(place) for place in asked.also],
        },
        "kind": dump.kind,
        "by": dump.who or None,
        "sure": dump.sure,
        "questions": {
            "exceeds_device_alone": one.questions.alone,
            "held_before_by": one.questions.held_by,
            "held_before_bytes": one.questions.held_bytes,
            "of_bytes": one.questions.whole_bytes,
            "constant_of_array": one.questions.constant,
        },
        "device_bytes": dump.device_bytes,
        "free_at_start_bytes": dump.free_at_start_bytes,
        "driver_refused_bytes": dump.refused_bytes,
        "limit_bytes": dump.limit_bytes,
        "pool_bytes": dump.pool_bytes,
        "in_use_bytes": dump.in_use_bytes,
        "peak_bytes": dump.peak_bytes,
        "free_bytes": dump.free_bytes,
        "largest_free_bytes": dump.largest_free_bytes,
        "free_pieces": dump.free_pieces,
        "growth_bytes": dump.growth_bytes,
        "driver_free_bytes": dump.driver_free_bytes,
        "regions": dump.regions,
        "complete": dump.whole,
        "by_size": [{"bytes": h.bytes, "count": h.count, "each_bytes": h.each_bytes} for h in dump.by_size],
        "by_op": [
            {"op": h.name, "bytes": h.bytes, "count": h.count, "place": _place(h.place), "expansion": h.expansion}
            for h in dump.by_op
        ],
        "by_part": [{"part": h.name, "bytes": h.bytes} for h in dump.by_part],
        "advice": [{"says": a.says, "gain_bytes": a.gain_bytes, "enough": a.enough} for a in one.advice],
    }


def _place(place: Place | None) -> dict[str, Any] | None:
    return {"file": place.file, "line": place.line} if place is not None else None
