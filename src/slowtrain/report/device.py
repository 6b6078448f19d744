"""The part of the page that tells of the device: why it waits, in which gaps, and what it is busy with."""

from __future__ import annotations

from collections.abc import Sequence

from slowtrain.model import DeviceUse, Reached
from slowtrain.report import processors, wording
from slowtrain.report.markup import Markup, el
from slowtrain.report.shell import figure


def section(device: DeviceUse | None) -> Markup | None:
    """Why the device waits, its longest gaps, and what it is busy with."""
    if device is None:
        return None
    reasons = [
        el(
            "tr",
            el("td", processors.waits(p.name, device.kind)),
            figure(wording.duration(p.ms)),
            figure(_share(p.share)),
        )
        for p in device.idle.parts
    ]
    gaps = [
        el("tr", figure(wording.duration(g.start_ms)), figure(wording.duration(g.ms)), el("td", g.reason),
           figure(_share(g.share)), el("td", el("code", g.detail)))
        for g in device.gaps
    ]  # fmt: skip
    ops = [
        el("tr", el("td", el("code", o.name)), figure(wording.duration(o.ms)), figure(wording.number(o.count)),
           figure(_share(o.share)))
        for o in device.ops
    ]  # fmt: skip
    copies = [
        el("tr", el("td", c.name), figure(wording.number(c.count)),
           figure(wording.size(c.bytes) if c.bytes else "?"), figure(wording.duration(c.ms)),
           figure(_share(c.share)))
        for c in device.copies
    ]  # fmt: skip
    return el(
        "section",
        el("h2", el("span", f"What {device.name} does"), el("small", _use(device))),
        _rows(("it waits", "a step", "of the idle time"), reasons),
        _folded("The longest gaps", ("from the first step", "length", "reason", "of the gap", "what exactly"), gaps),
        _folded(
            "The ops that take most of its time",
            ("op", "a step", "times", f"of all {processors.ops(device.kind)}"),
            ops,
        ),
        _folded(
            "Copies",
            ("direction", "a step", "bytes", "time", f"hidden by no {processors.ops(device.kind)[:-1]}"),
            copies,
        ),
    )


def _use(device: DeviceUse) -> str:
    said = [
        f"busy {_share(device.busy_share)}",
        f"{wording.number(device.kernels)} {processors.ops(device.kind)} a step",
    ]
    said.append(f"median {wording.duration(device.median_kernel_us / 1e3)}")
    if device.queued_share is not None:
        said.append(f"{_share(device.queued_share)} of them launched before the one before had ended")
    said += [_reached(r) for r in device.reached]
    return " · ".join(said)


def _reached(one: Reached) -> str:
    """Of the ops whose shapes the profile tells."""
    part = f", {_share(one.per_second / one.peak)} of the peak" if one.peak else ""
    if one.what == "memory":
        return f"elementwise ops move at least {wording.number(one.per_second / 1e9)} GB/s{part}"
    return f"matrix products in {one.what} reach {wording.number(one.per_second / 1e12)} TFLOP/s{part}"


def _share(share: float) -> str:
    return "?" if wording.finite(share) is None else wording.share(share)


def _rows(head: Sequence[str], rows: Sequence[Markup]) -> Markup:
    names = el("tr", [el("th", name, class_="n" if i else None) for i, name in enumerate(head)])
    return el("div", el("table", el("thead", names), el("tbody", rows)), class_="table")


def _folded(title: str, head: Sequence[str], rows: Sequence[Markup]) -> Markup | None:
    return el("details", el("summary", title), _rows(head, rows)) if rows else None
