"""The terminal report: the answer first, on one screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from slowtrain.model import Attribution, Checkup, Diagnosis, Part, VerdictKind
from slowtrain.report import processors, wording
from slowtrain.report.terminal import Paper, cells
from slowtrain.values import dataclass

# Longer lines are hard to read, however wide the terminal is.
_WIDEST, _NARROWEST = 110, 32
_WHOLE, _TITLE = 300, 100  # letters of a note, and of a title, that is shown whole

_COLOURS = {
    "input": "yellow", "convert": "magenta", "h2d": "magenta", "d2h": "magenta", "compile": "red", "dispatch": "blue",
    "host-op": "blue", "python": "cyan",
    "callback": "cyan", "gc": "red", "device": "green", "steps": "green", "unattributed": "grey",
}  # fmt: skip


@dataclass(frozen=True)
class _Limits:
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


# What is given up, one after the other and the least missed first, until the report fits the screen.
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


A_TENTH = 0.1  # of a step, or of the device's idle time: what takes as much is told, however little room there is
VISIBLE = 0.002  # a smaller share is named in the line below the bars


def render(
    checkup: Checkup, *, width: int = 80, colour: bool = False, unicode: bool = True, height: int | None = 38
) -> str:
    """The report in lines of at most ``width`` columns.

    Lists are cut until it fits ``height`` lines of 80 columns (more lines where they are
    shorter), or not at all where ``height`` is None. ``unicode`` says whether the stream
    carries more than ASCII.
    """
    paper = Paper(max(min(width, _WIDEST), _NARROWEST), colour, unicode)
    limits = _Limits()
    lines = list(_report(checkup, paper, limits))
    if height is not None:
        room = height * max(80, paper.width) // paper.width
        for name, most in _CUTS:
            if len(lines) <= room:
                break
            limits = replace(limits, **{name: most})
            lines = list(_report(checkup, paper, limits))
    return _join(lines)


def _join(lines: Sequence[str]) -> str:
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _report(checkup: Checkup, paper: Paper, limits: _Limits) -> Iterator[str]:
    yield from _headline(checkup, paper)
    judged = wording.judged(checkup.verdict)
    if not judged:
        # Why there is no verdict, and what would give one, matters more than what was recorded.
        yield from _notes(checkup, paper, limits)
        yield from _next_steps(checkup, paper, limits)
    yield from _where(checkup, paper, limits)
    yield from _device(checkup, paper, limits)
    yield from _causes(checkup, paper, limits)
    yield from _seen(checkup, paper, limits)
    yield from _checked(checkup, paper, limits)
    if judged:
        yield from _notes(checkup, paper, limits)
        yield from _next_steps(checkup, paper, limits)


def _headline(checkup: Checkup, paper: Paper) -> Iterator[str]:
    kind = wording.heading(checkup).upper()
    failed = checkup.lost or checkup.verdict is VerdictKind.FAILED
    tone = "red" if failed else "yellow" if checkup.diagnoses else "green"
    if checkup.verdict is VerdictKind.INSUFFICIENT and not failed:
        tone = "yellow"
    first, *rest = paper.wrap(f"{kind}: {checkup.headline}" if checkup.headline else kind, paper.width, 3)
    word = first[: len(kind)]
    yield paper.style(word, "bold", tone) + paper.style(first[len(word) :], "bold")
    yield from (paper.style(line, "bold") for line in rest)
    for fact in _facts(checkup, paper):
        yield paper.style(fact, "dim")


def _facts(checkup: Checkup, paper: Paper) -> list[str]:
    subject, steps = checkup.subject, checkup.steps
    exit_code = f" (exit code {subject.exit_code})" if subject.exit_code else ""
    ran = f"{wording.command(subject)}{exit_code}"
    where = " · ".join(w for w in (wording.device(subject.device), wording.framework(subject)) if w != wording.UNKNOWN)
    timed = [wording.steps(steps)]
    if wording.finite(steps.median_ms) is not None:
        timed.append(f"median {wording.duration(steps.median_ms)}")
    if wording.finite(steps.p95_ms) is not None:
        timed.append(f"p95 {wording.duration(steps.p95_ms)}")
    if wording.finite(steps.samples_per_second) is not None:
        timed.append(f"{wording.number(steps.samples_per_second)} samples/s")
    lines = [paper.fit(line, paper.width) for line in (ran, where) if line]
    lines += paper.wrap(f"computer: {subject.computer}", paper.width, 3) if subject.computer else []
    return lines + paper.wrap(" · ".join(timed), paper.width, 2)


def _where(checkup: Checkup, paper: Paper, limits: _Limits) -> Iterator[str]:
    """The step's bars, or the run's where the step is not what is slow; the other one as a line."""
    step, named = bool(checkup.attribution.parts), wording.category
    if step and checkup.verdict is not VerdictKind.STARTUP:
        yield from _bars("Where a step goes", checkup.attribution, paper, limits, named)
        if checkup.run.parts:
            yield from _inline("Whole run", checkup.run, paper, limits, wording.phase)
    elif checkup.run.parts:
        yield from _bars("Where the run goes", checkup.run, paper, limits, wording.phase)
        if step:
            yield from _inline(
                f"A step ({wording.verdict(checkup.step_verdict)})", checkup.attribution, paper, limits, named
            )
    if not step and wording.judged(checkup.verdict):
        yield paper.fit(f"Where a step goes: {wording.UNKNOWN}", paper.width)


def _device(checkup: Checkup, paper: Paper, limits: _Limits) -> Iterator[str]:
    """Why the device waits, and its longest gaps."""
    device = checkup.device
    if device is None or not device.idle.parts:
        return
    yield ""
    idle = f"{wording.duration(device.idle.total_ms)} of a step"
    title = f"Why {device.name} waits"
    yield paper.style(paper.pad(title, paper.width - cells(idle)), "bold") + idle
    for place, part in enumerate(device.idle.parts):
        if place >= max(limits.gaps, 1) and part.share < A_TENTH:
            break
        text = processors.waits(part.name, device.kind)
        yield f"  {_share(part):>5} {paper.fit(text, paper.width - 8)}"
    if device.gaps and limits.gaps:
        yield paper.style(
            f"  the longest gaps{' of profiled steps' if checkup.subject.kind == 'recording' else ''}:", "dim"
        )
    for gap in device.gaps[: limits.gaps]:
        said = f"at {wording.duration(gap.start_ms)}: {gap.reason}, {gap.detail}" if gap.detail else gap.reason
        yield paper.style(f"  {wording.duration(gap.ms):>8} {paper.fit(said, paper.width - 11)}", "dim")


def _largest(attribution: Attribution) -> list[Part]:
    """Parts by size; what could not be told stands last, and always."""
    rest = [p for p in attribution.parts if p.name == "unattributed"]
    return sorted((p for p in attribution.parts if p not in rest and p.ms), key=lambda p: -p.ms) + rest


def _shown(parts: Sequence[Part], most: int) -> list[Part]:
    """The largest parts, and each that is a tenth of the whole; what could not be told stands last, and always."""
    large = sum(1 for p in parts if p.share >= A_TENTH)
    room = max(most, large)
    if len(parts) > room and parts[-1].name == "unattributed":
        return [*parts[: room - 1], parts[-1]]
    return list(parts[:room])


def _bars(title: str, attribution: Attribution, paper: Paper, limits: _Limits, named: wording.Named) -> Iterator[str]:
    parts = _largest(attribution)
    seen = [p for p in parts if not p.share < VISIBLE] or parts[:1]  # NaN is seen
    shown = _shown(seen, limits.parts)
    total = wording.duration(attribution.total_ms)
    yield ""
    yield paper.style(paper.pad(title, paper.width - cells(paper.plain(total))), "bold") + paper.plain(total)
    labels = [paper.fit(named(p.name)[0], 18 if paper.width >= 60 else 15 if paper.width >= 40 else 9) for p in shown]
    figures = [paper.plain(wording.duration_in(p.ms, attribution.total_ms)) for p in shown]
    label, figure = max(map(cells, labels), default=0), max(map(cells, figures), default=0)
    room = max(paper.width - label - figure - 10, 1)
    for part, name, ms in zip(shown, labels, figures, strict=True):
        bar = paper.style(paper.bar(part.share, room), _COLOURS.get(part.name, "blue"))
        blank = " " * (room - cells(paper.bar(part.share, room)))
        yield f"  {paper.pad(name, label)} {bar}{blank} {paper.pad(ms, figure, right=True)} {_share(part):>5}"
    left = [p for p in parts if p not in shown]
    if left:
        names = [f"{named(p.name)[0]} {_share(p)}" for p in left]
        yield from (paper.style("  " + line, "dim") for line in _listed("and ", names, paper, paper.width - 2, 1))


def _inline(title: str, attribution: Attribution, paper: Paper, limits: _Limits, named: wording.Named) -> Iterator[str]:
    ordered = sorted(_largest(attribution), key=lambda p: -p.ms)
    parts = [f"{named(p.name)[0]} {_share(p)}" for p in ordered]
    start = f"{title} {wording.duration(attribution.total_ms)}: "
    yield from (paper.style(line, "dim") for line in _listed(start, parts, paper, paper.width, limits.whole))


def _share(part: Part) -> str:
    return "?" if wording.finite(part.share) is None else wording.share(part.share)


def _listed(start: str, items: Sequence[str], paper: Paper, width: int, most: int) -> list[str]:
    """Items in at most ``most`` lines, cut between two of them."""
    for count in range(len(items), 0, -1):
        lines = paper.wrap(start + ", ".join(items[:count]) + (", …" if count < len(items) else ""), width)
        if len(lines) <= most:
            return lines
    return paper.wrap(start + ", ".join(items), width, most)


def _causes(checkup: Checkup, paper: Paper, limits: _Limits) -> Iterator[str]:
    if not checkup.diagnoses:
        return
    yield ""
    yield paper.style(paper.fit("Why, and what each cure would give", paper.width), "bold")
    for rank, diagnosis in enumerate(checkup.diagnoses[: limits.full + limits.brief], 1):
        yield from _title(rank, diagnosis, paper)
        if rank <= limits.full:
            yield from _details(diagnosis, paper, limits)
    left = len(checkup.diagnoses) - limits.full - limits.brief
    if left > 0:
        yield _more(left, paper)


def _title(rank: int, diagnosis: Diagnosis, paper: Paper) -> Iterator[str]:
    gain = paper.plain(wording.gain(diagnosis.saving))
    room = paper.width - cells(gain) - 5
    title = paper.plain(diagnosis.title)
    number, most = f"{rank:>2} ", 99 if len(title) <= _TITLE else 1
    tone = ("bold", "green") if diagnosis.saving.low > 1 else ("dim",)
    if room >= min(cells(title), 28):
        head, *rest = paper.wrap(title, room, most)
        yield f"{paper.style(number + paper.pad(head, room), 'bold')}  {paper.style(gain, *tone)}"
        yield from (paper.style("   " + line, "bold") for line in rest)
    else:
        yield from (
            paper.style(("   " if i else number) + line, "bold")
            for i, line in enumerate(paper.wrap(title, paper.width - 3, most))
        )
        yield "   " + paper.style(paper.fit(gain, paper.width - 3), *tone)


def _details(diagnosis: Diagnosis, paper: Paper, limits: _Limits) -> Iterator[str]:
    width = paper.width - 3
    where = diagnosis.evidence.where
    cause = paper.fit(diagnosis.cause, width)
    place = paper.plain(f"{where[0]} {where[0].code}") if where else ""
    more = f" (+{len(where) - 1} more)" if len(where) > 1 else ""
    room = width - cells(cause) - cells(more) - 2
    if where and cells(place) > room:  # the file's name and the code say more than the folders do
        place = paper.plain(f"{where[0].short} {where[0].code}")
    if place and room < min(cells(place), 24):  # too narrow for both on one line
        yield f"   {paper.style(paper.fit(place, width - cells(more)) + more, 'cyan')}"
        place = ""
    place = paper.fit(place, room) + more if place else ""
    gap = " " * (width - cells(place) - cells(cause)) if place else ""
    yield f"   {paper.style(place, 'cyan')}{gap}{paper.style(cause, 'dim')}"
    yield from ("   " + line for line in paper.wrap(diagnosis.evidence.says, width, limits.evidence))
    if diagnosis.prescriptions:
        first = diagnosis.prescriptions[0]
        text = f"{first.says} [{wording.effect(first.effect)}]"
        arrow = "→" if paper.unicode else "->"
        lines = paper.wrap(text, width - 3, limits.prescription)
        yield from (f"   {paper.pad(arrow if i == 0 else '', 2)} {line}" for i, line in enumerate(lines))
    if diagnosis.verdict is not None:
        yield "   " + paper.fit(f"Cure measured: {wording.measured(diagnosis.verdict)}", width)


def _seen(checkup: Checkup, paper: Paper, limits: _Limits) -> Iterator[str]:
    """What lint sees: how many of each kind, then the dearest ones."""
    if not checkup.seen:
        return
    yield ""
    yield paper.style(paper.fit(f"Seen in the source: {wording.states(checkup.seen)}", paper.width), "bold")
    for one in checkup.seen[: limits.seen]:
        told = wording.state(one)
        room = paper.width - cells(told) - 5
        where = paper.fit(paper.plain(f"{one.place.short} {one.cause}"), room)
        tone = "cyan" if one.state == "confirmed" else "dim"
        yield f"   {paper.style(paper.pad(where, room), tone)}  {paper.style(told, 'dim')}"
    if limits.seen and len(checkup.seen) > limits.seen:
        yield _more(len(checkup.seen) - limits.seen, paper)


def _checked(checkup: Checkup, paper: Paper, limits: _Limits) -> Iterator[str]:
    if not (checkup.healthy or checkup.unchecked):
        return
    yield ""
    if checkup.healthy:
        yield paper.fit(f"Checked and not found: {wording.causes(len(checkup.healthy))}", paper.width)
    if checkup.unchecked:
        groups = wording.by_signal(checkup.unchecked)
        start = f"Not checked: {wording.causes(len(checkup.unchecked))}, for want of "
        named = [f"{missing} ({', '.join(causes)})" for missing, causes in groups.items()]
        counted = [f"{missing} ({len(causes)})" for missing, causes in groups.items()]
        lines = paper.wrap(start + ", ".join(named), paper.width)
        if not checkup.steps.counted:  # one reason for them all
            said = f"Not checked: {wording.causes(len(checkup.unchecked))}, since no steady steps were seen"
            lines = [paper.fit(said, paper.width)]
        if len(lines) > limits.unchecked:
            lines = _listed(start, counted, paper, paper.width, limits.unchecked)
        yield from (paper.style(line, "yellow") for line in lines)


def _more(left: int, paper: Paper) -> str:
    return paper.style("  " + paper.fit(f"(+{left} more, see --html)", paper.width - 2), "dim")


def _notes(checkup: Checkup, paper: Paper, limits: _Limits) -> Iterator[str]:
    if not (checkup.notes and limits.notes):
        return
    yield ""
    for note in checkup.notes[: limits.notes]:
        # What qualifies all figures is shown whole or not at all, unless it is somebody's text without end.
        lines = paper.wrap(note, paper.width - 6, 99 if len(note) <= _WHOLE else limits.notes)
        yield from (paper.pad("Note: " if i == 0 else "", 6) + line for i, line in enumerate(lines))
    left = len(checkup.notes) - limits.notes
    if left > 0:
        yield _more(left, paper)


def _next_steps(checkup: Checkup, paper: Paper, limits: _Limits) -> Iterator[str]:
    if not checkup.next_steps:
        return
    yield ""
    yield paper.style("Next", "bold")
    for step in checkup.next_steps[: limits.next_steps]:
        yield from (("  " if i == 0 else "    ") + line for i, line in enumerate(paper.wrap(step, paper.width - 4, 3)))
