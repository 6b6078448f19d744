"""What ran out of memory, and why, as one self-contained page."""

from __future__ import annotations

from slowtrain.model import Attribution, Part
from slowtrain.model.answers.exhaustion import Dump, Exhaustion, JudgedDump, MemoryHolder
from slowtrain.report import charts, oom, shell, wording
from slowtrain.report.markup import Markup, el
from slowtrain.report.shell import figure, listed, section

HOLDERS = 12


def render(found: Exhaustion) -> str:
    """The whole page."""
    said = oom.headline(found)
    word = el("span", str(found.findings[0].outcome) if found.findings else _without(found), class_="verdict")
    what = el("p", "Slowtrain on the memory in ", el("code", found.path), class_="what clamp")
    header = el("header", el("div", what, el("h1", word, said)))
    footer = el("footer", el("p", f"{found.lines:,} lines read, {found.dumps:,} dumps."))
    main = el("main", [_finding(one, first=i == 0) for i, one in enumerate(found.findings)], _notes(found))
    return shell.page(f"{said}: {found.path}, by Slowtrain", header, main, footer, oom.render_json(found))


def _without(found: Exhaustion) -> str:
    return "harmless" if oom.harmless(found) else "nearly full"


def _notes(found: Exhaustion) -> Markup | None:
    retries = sorted(found.retries.items())
    retried = [f"{name}: {oom.requests(times)} found no memory at first" for name, times in retries]
    return listed("Notes", [*found.notes, *retried])


def _finding(one: JudgedDump, *, first: bool) -> Markup:
    dump = one.dump
    facts = [*oom.request(dump), *oom.answers(one), *oom.memory(dump)]
    rows = [el("tr", el("td", name), el("td", el("code", said))) for name, said in facts]
    title = "What was asked, and what there was" if first else one.says
    parts: list[Markup | None] = [_pool(dump), el("table", el("tbody", rows))]
    held = ((oom.maker(dump), dump.by_op), ("size", dump.by_size), ("part", dump.by_part))
    parts += [_holders(by, holders, None if by == "part" else dump.in_use_bytes) for by, holders in held]
    if one.advice:
        parts.append(el("h3", "What to do"))
        parts.append(el("ol", [el("li", oom.told(advice)) for advice in one.advice]))
    return section(title, *parts, aside=f"line {dump.line:,}")


def _pool(dump: Dump) -> Markup | None:
    """The pool as one bar: what is in use, the largest free piece, the rest of what is free."""
    if not dump.in_use_bytes or dump.free_bytes is None:
        return None
    whole = dump.in_use_bytes + dump.free_bytes
    largest = min(dump.largest_free_bytes or 0, dump.free_bytes)
    held = {
        "device": ("in use", dump.in_use_bytes),
        "input": ("largest free piece", largest),
        "unattributed": ("other free pieces", dump.free_bytes - largest),
    }
    says = "; ".join(f"{name} {wording.size(bytes_)}" for name, bytes_ in held.values() if bytes_)
    parts = tuple(Part(colour, float(bytes_), bytes_ / whole) for colour, (_, bytes_) in held.items() if bytes_)
    cells = []
    for part in parts:
        name, bytes_ = held[part.name]
        cells.append(el("span", charts.swatch(part.name), f" {name} {wording.size(bytes_)} "))
    bar = charts.stacked(
        Attribution(float(whole), parts), says, lambda name: (held[name][0], ""), lambda v, _: wording.size(v)
    )
    return el("div", bar, el("p", cells, class_="soft"))


def _holders(by: str, holders: tuple[MemoryHolder, ...], in_use_bytes: int | None) -> Markup | None:
    if not holders:
        return None
    whole = in_use_bytes or sum(h.bytes for h in holders) or 1
    head = el("tr", el("th", f"what held it, by {by}"), el("th", "bytes", class_="n"), el("th", "share", class_="n"))
    rows = [
        el("tr", el("td", oom.holder(h)), figure(wording.size(h.bytes)), figure(wording.share(h.bytes / whole)))
        for h in holders[:HOLDERS]
    ]
    return el("table", el("thead", head), el("tbody", rows))
