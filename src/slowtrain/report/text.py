"""The terminal report: the answer first, on one screen."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len

from slowtrain.model import Attribution, Checkup, Diagnosis, Part, VerdictKind
from slowtrain.number_text import format_count
from slowtrain.report import wording
from slowtrain.report.terminal import MAX_COLUMNS, PART_COLOURS, Terminal, joined_lines

MIN_REPORT_COLUMNS = 32
MAX_WHOLE_NOTE, MAX_WHOLE_TITLE = 300, 100  # letters of what is shown whole


class _Limits(Struct, frozen=True):
    """How much of each list is shown."""

    full: int = 99  # causes with their evidence
    brief: int = 99  # causes of which only the title is shown
    evidence: int = 99  # lines of evidence
    prescription: int = 99  # lines of a prescription
    parts: int = 99  # bars
    gaps: int = 99  # of the device's longest
    whole: int = 99  # lines of the attribution that is not drawn
    unchecked: int = 99  # lines of what was not checked
    notes: int = 99  # notes, and as many lines of a very long one
    next_steps: int = 99
    seen: int = 99  # findings of the source, each a line


# The cuts are made in this order, the least important first, until the report fits the screen.
_CUTS: tuple[tuple[str, int], ...] = (
    ("seen", 3), ("full", 5), ("brief", 5), ("gaps", 5),
    ("evidence", 4), ("prescription", 3), ("parts", 10), ("notes", 3), ("next_steps", 4),
    ("unchecked", 4), ("whole", 2), ("parts", 8), ("notes", 2), ("evidence", 3), ("unchecked", 3), ("prescription", 2),
    ("next_steps", 3), ("gaps", 3), ("full", 4), ("brief", 3), ("parts", 7), ("evidence", 2), ("full", 3), ("whole", 1),
    ("unchecked", 2),
    ("parts", 6), ("brief", 1), ("gaps", 1), ("seen", 0),
    ("prescription", 1), ("notes", 1), ("next_steps", 2), ("unchecked", 1), ("parts", 4),
    ("brief", 0), ("full", 2), ("evidence", 1), ("next_steps", 1), ("full", 1), ("parts", 2), ("notes", 0),
)  # fmt: skip


MIN_LARGE_SHARE = 0.1  # of a step, or of the device's idle time: a part as large is shown, however little room there is
MIN_BAR_SHARE = 0.002  # a smaller share is named in the line below the bars


def checkup_text(
    checkup: Checkup, *, width: int = 80, colour: bool = False, unicode: bool = True, height: int | None = 38
) -> str:
    """The report in lines of at most ``width`` columns.

    Lists are cut until the report fits ``height`` lines of 80 columns, or more lines if they are shorter. They are not
    cut if ``height`` is None. ``unicode`` says whether the stream carries more than ASCII.
    """
    out = Terminal(max(min(width, MAX_COLUMNS), MIN_REPORT_COLUMNS), colour, unicode)
    lines = list(_report_lines(checkup, out, _Limits()))
    if height is None or len(lines) <= (room := height * max(80, out.width) // out.width):
        return joined_lines(lines)

    def length(cuts: int) -> int:
        return len(list(_report_lines(checkup, out, _limits_after(cuts))))

    cuts = bisect.bisect_left(range(len(_CUTS)), -room, key=lambda cuts: -length(cuts))
    return joined_lines(_report_lines(checkup, out, _limits_after(cuts)))


def _limits_after(cuts: int) -> _Limits:
    """The limits after the first ``cuts`` cuts."""
    return replace(_Limits(), **dict(_CUTS[:cuts]))


def _report_lines(checkup: Checkup, out: Terminal, limits: _Limits) -> Iterator[str]:
    yield from _headline_lines(checkup, out)
    judged = wording.is_judged(checkup.verdict)
    if not judged:
        # Why there is no verdict, and what would give one, matters more than what was recorded.
        yield from _note_lines(checkup, out, limits)
        yield from _next_step_lines(checkup, out, limits)
    yield from _attribution_lines(checkup, out, limits)
    yield from _device_waits(checkup, out, limits)
    yield from _cause_lines(checkup, out, limits)
    yield from _source_findings(checkup, out, limits)
    yield from _checked_causes(checkup, out, limits)
    if judged:
        yield from _note_lines(checkup, out, limits)
        yield from _next_step_lines(checkup, out, limits)


def _headline_lines(checkup: Checkup, out: Terminal) -> Iterator[str]:
    kind = wording.heading_words(checkup).upper()
    failed = checkup.lost or checkup.verdict is VerdictKind.FAILED
    unclear = checkup.diagnoses or checkup.verdict is VerdictKind.INSUFFICIENT
    tone = "red" if failed else "yellow" if unclear else "green"
    first, *rest = out.wrap(f"{kind}: {checkup.headline}" if checkup.headline else kind, lines=3)
    word = first[: len(kind)]
    yield out.style(word, f"bold {tone}") + out.style(first[len(word) :], "bold")
    yield from (out.style(line, "bold") for line in rest)
    for fact in _fact_lines(checkup, out):
        yield out.style(fact, "dim")


def _fact_lines(checkup: Checkup, out: Terminal) -> list[str]:
    subject, steps = checkup.subject, checkup.steps
    exit_code = f" (exit code {subject.exit_code})" if subject.exit_code else ""
    ran = f"{wording.command_line(subject)}{exit_code}"
    where = " · ".join(
        w for w in (wording.device_text(subject.device), wording.framework_text(subject)) if w != wording.UNKNOWN
    )
    timed = [wording.step_counts(steps)]
    if wording.finite_or_none(steps.median_ms) is not None:
        timed.append(f"median {wording.duration_text(steps.median_ms)}")
    if wording.finite_or_none(steps.p95_ms) is not None:
        timed.append(f"p95 {wording.duration_text(steps.p95_ms)}")
    if wording.finite_or_none(steps.samples_per_second) is not None:
        timed.append(f"{wording.number_text(steps.samples_per_second)} samples/s")
    lines = [out.fit(line) for line in (ran, where) if line]
    lines += out.wrap(f"computer: {subject.computer}", lines=3) if subject.computer else []
    return lines + out.wrap(" · ".join(timed), lines=2)


def _attribution_lines(checkup: Checkup, out: Terminal, limits: _Limits) -> Iterator[str]:
    """The bars of the step, or of the run if the start is what is slow; the other one as a line."""
    step, named = bool(checkup.attribution.parts), wording.category_words
    if step and checkup.verdict is not VerdictKind.STARTUP:
        yield from _bar_lines("Where a step goes", checkup.attribution, out, limits, named)
        if checkup.run.parts:
            yield from _parts_line("Whole run", checkup.run, out, limits, wording.phase_words)
    elif checkup.run.parts:
        yield from _bar_lines("Where the run goes", checkup.run, out, limits, wording.phase_words)
        if step:
            yield from _parts_line(
                f"A step ({wording.verdict_words(checkup.step_verdict)})", checkup.attribution, out, limits, named
            )
    if not step and wording.is_judged(checkup.verdict):
        yield out.fit(f"Where a step goes: {wording.UNKNOWN}")


def _device_waits(checkup: Checkup, out: Terminal, limits: _Limits) -> Iterator[str]:
    """Why the device waits, and its longest gaps."""
    device = checkup.device
    if device is None or not device.idle.parts:
        return
    yield ""
    yield out.ends(f"Why {device.name} waits", f"{wording.duration_text(device.idle.total_ms)} of a step")
    for place, part in enumerate(device.idle.parts):
        if place >= max(limits.gaps, 1) and part.share < MIN_LARGE_SHARE:
            break
        reason = wording.waiting_reason(part.name, device.kind)
        yield out.fit_end(f"  {wording.share_or_unknown(part.share):>5} ", reason)
    if device.gaps and limits.gaps:
        whose = " of profiled steps" if checkup.subject.kind == "recording" else ""
        yield out.style(f"  the longest gaps{whose}:", "dim")
    for gap in device.gaps[: limits.gaps]:
        words = f"at {wording.duration_text(gap.start_ms)}: {gap.reason}, {gap.detail}" if gap.detail else gap.reason
        yield out.style(out.fit_end(f"  {wording.duration_text(gap.ms):>8} ", words), "dim")


def _parts_by_size(whole: Attribution) -> list[Part]:
    """The parts that took time, and the unattributed part always."""
    return [p for p in wording.parts_by_size(whole) if p.ms or p.name == "unattributed"]


def _shown_parts(parts: Sequence[Part], most: int) -> list[Part]:
    """The largest parts, and every part of a tenth of the whole or more. The unattributed part is always last."""
    large = sum(1 for p in parts if p.share >= MIN_LARGE_SHARE)
    room = max(most, large)
    if len(parts) > room and parts[-1].name == "unattributed":
        return [*parts[: room - 1], parts[-1]]
    return list(parts[:room])


def _bar_lines(
    title: str, attribution: Attribution, out: Terminal, limits: _Limits, named: wording.Named
) -> Iterator[str]:
    parts = _parts_by_size(attribution)
    seen = [p for p in parts if not p.share < MIN_BAR_SHARE] or parts[:1]  # NaN is seen
    shown = _shown_parts(seen, limits.parts)
    total = wording.duration_text(attribution.total_ms)
    yield ""
    yield out.ends(title, total)
    room = 18 if out.width >= 60 else 15 if out.width >= 40 else 9
    labels = [out.fit(named(p.name)[0], room) for p in shown]
    figures = [out.plain(wording.duration_like(p.ms, attribution.total_ms)) for p in shown]
    label, figure = max(map(cell_len, labels), default=0), max(map(cell_len, figures), default=0)
    room = max(out.width - label - figure - 10, 1)
    for part, name, ms in zip(shown, labels, figures, strict=True):
        bar = out.style(out.pad(out.bar(part.share, room), room), PART_COLOURS.get(part.name, "blue"))
        share = wording.share_or_unknown(part.share)
        yield f"  {out.pad(name, label)} {bar} {out.pad(ms, figure, right=True)} {share:>5}"
    left = [p for p in parts if p not in shown]
    if left:
        names = [f"{named(p.name)[0]} {wording.share_or_unknown(p.share)}" for p in left]
        yield from (out.style("  " + line, "dim") for line in _items_in_lines("and ", names, out, out.width - 2, 1))


def _parts_line(
    title: str, attribution: Attribution, out: Terminal, limits: _Limits, named: wording.Named
) -> Iterator[str]:
    ordered = sorted(_parts_by_size(attribution), key=lambda p: -p.ms)
    parts = [f"{named(p.name)[0]} {wording.share_or_unknown(p.share)}" for p in ordered]
    start = f"{title} {wording.duration_text(attribution.total_ms)}: "
    yield from (out.style(line, "dim") for line in _items_in_lines(start, parts, out, out.width, limits.whole))


def _items_in_lines(start: str, items: Sequence[str], out: Terminal, width: int, most: int) -> list[str]:
    """Items in at most ``most`` lines, cut between two of them."""
    for count in range(len(items), 0, -1):
        lines = out.wrap(start + ", ".join(items[:count]) + (", …" if count < len(items) else ""), width)
        if len(lines) <= most:
            return lines
    return out.wrap(start + ", ".join(items), width, most)


def _cause_lines(checkup: Checkup, out: Terminal, limits: _Limits) -> Iterator[str]:
    if not checkup.diagnoses:
        return
    yield ""
    yield out.heading("Why, and what each cure would give")
    for rank, diagnosis in enumerate(checkup.diagnoses[: limits.full + limits.brief], 1):
        yield from _cause_title(rank, diagnosis, out)
        if rank <= limits.full:
            yield from _cause_details(diagnosis, out, limits)
    left = len(checkup.diagnoses) - limits.full - limits.brief
    if left > 0:
        yield _more_line(left, out)


def _cause_title(rank: int, diagnosis: Diagnosis, out: Terminal) -> Iterator[str]:
    gain = out.plain(wording.gain_text(diagnosis.saving))
    room = out.width - cell_len(gain) - 5
    title = out.plain(diagnosis.title)
    number, most = f"{rank:>2} ", 99 if len(title) <= MAX_WHOLE_TITLE else 1
    tone = "bold green" if diagnosis.saving.low > 1 else "dim"
    if room >= min(cell_len(title), 28):
        head, *rest = out.wrap(title, room, most)
        yield f"{out.style(number + out.pad(head, room), 'bold')}  {out.style(gain, tone)}"
        yield from (out.style("   " + line, "bold") for line in rest)
    else:
        yield from out.hanging(number, title, lines=most, style="bold")
        yield "   " + out.style(out.fit(gain, out.width - 3), tone)


def _cause_details(diagnosis: Diagnosis, out: Terminal, limits: _Limits) -> Iterator[str]:
    width = out.width - 3
    where = diagnosis.evidence.where
    cause = out.fit(diagnosis.cause, width)
    place = out.plain(f"{where[0]} {where[0].code}") if where else ""
    more = f" (+{len(where) - 1} more)" if len(where) > 1 else ""
    room = width - cell_len(cause) - cell_len(more) - 2
    if where and cell_len(place) > room:  # the file's name and the code say more than the folders do
        place = out.plain(f"{where[0].short} {where[0].code}")
    if place and room < min(cell_len(place), 24):  # too narrow for both on one line
        yield f"   {out.style(out.fit(place, width - cell_len(more)) + more, 'cyan')}"
        place = ""
    place = out.fit(place, room) + more if place else ""
    gap = " " * (width - cell_len(place) - cell_len(cause)) if place else ""
    yield f"   {out.style(place, 'cyan')}{gap}{out.style(cause, 'dim')}"
    yield from out.hanging("   ", diagnosis.evidence.says, lines=limits.evidence)
    if diagnosis.prescriptions:
        first = diagnosis.prescriptions[0]
        text = f"{first.says} [{wording.effect_words(first.effect)}]"
        arrow = "→ " if out.unicode else "->"
        yield from out.hanging(f"   {arrow} ", text, lines=limits.prescription)
    if diagnosis.verdict is not None:
        yield out.fit_end("   ", f"Cure measured: {wording.verdict_text(diagnosis.verdict)}")


def _source_findings(checkup: Checkup, out: Terminal, limits: _Limits) -> Iterator[str]:
    """Findings of lint: how many of each kind, then those that cost most."""
    if not checkup.seen:
        return
    yield from out.section(f"Seen in the source: {wording.state_counts(checkup.seen)}")
    for one in checkup.seen[: limits.seen]:
        state = wording.state_text(one)
        room = out.width - cell_len(state) - 5
        where = out.column(f"{one.place.short} {one.cause}", room)
        tone = "cyan" if one.state == "confirmed" else "dim"
        yield f"   {out.style(where, tone)}  {out.style(state, 'dim')}"
    if limits.seen and len(checkup.seen) > limits.seen:
        yield _more_line(len(checkup.seen) - limits.seen, out)


def _checked_causes(checkup: Checkup, out: Terminal, limits: _Limits) -> Iterator[str]:
    if not (checkup.healthy or checkup.unchecked):
        return
    yield ""
    if checkup.healthy:
        yield out.fit(f"Checked and not found: {format_count(len(checkup.healthy), 'cause')}")
    if checkup.unchecked:
        groups = wording.unchecked_by_signal(checkup.unchecked)
        start = f"Not checked: {format_count(len(checkup.unchecked), 'cause')}; missing: "
        named = [f"{missing} ({', '.join(causes)})" for missing, causes in groups.items()]
        counted = [f"{missing} ({len(causes)})" for missing, causes in groups.items()]
        lines = out.wrap(start + ", ".join(named))
        if not checkup.steps.counted:  # one reason for them all
            words = f"Not checked: {format_count(len(checkup.unchecked), 'cause')}, because no steady steps were seen"
            lines = [out.fit(words)]
        if len(lines) > limits.unchecked:
            lines = _items_in_lines(start, counted, out, out.width, limits.unchecked)
        yield from (out.style(line, "yellow") for line in lines)


def _more_line(left: int, out: Terminal) -> str:
    return out.style("  " + out.fit(f"(+{left} more, see --html)", out.width - 2), "dim")


def _note_lines(checkup: Checkup, out: Terminal, limits: _Limits) -> Iterator[str]:
    if not (checkup.notes and limits.notes):
        return
    yield ""
    for note in checkup.notes[: limits.notes]:
        # A note that qualifies all figures is shown whole or not at all, unless it is a text without end.
        yield from out.hanging("Note: ", note, lines=99 if len(note) <= MAX_WHOLE_NOTE else limits.notes)
    left = len(checkup.notes) - limits.notes
    if left > 0:
        yield _more_line(left, out)


def _next_step_lines(checkup: Checkup, out: Terminal, limits: _Limits) -> Iterator[str]:
    if not checkup.next_steps:
        return
    yield from out.section("Next")
    for step in checkup.next_steps[: limits.next_steps]:
        yield from out.hanging("  ", step, indent=4, lines=3)
