"""The card itself: its link, its clocks, its health, who else is on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slowtrain.figures import plain
from slowtrain.machine.gpu import throttle_reasons
from slowtrain.machine.reading import Facts, at, card, cards, figure, gib, plural, present, rows
from slowtrain.machine.rules import FAULTY_XIDS, LANE_GBPS
from slowtrain.model import Signal
from slowtrain.model.sheet import Check, State

BUSY, CLOCK, FAULTY, LINK = (
    "machine/busy-gpu", "machine/throttled-clock", "machine/faulty-gpu", "transfer/slow-link",
)  # fmt: skip
# Of a card's memory: a process that holds less leaves room for every batch that would otherwise fit.
LITTLE_SHARE = 0.05
HOT = 0x20 | 0x40  # software and hardware: too hot
BRAKED = 0x8 | 0x80  # hardware slowdown, external power brake
POWER = 0x4
SET_CLOCKS = 0x2


def carding(facts: Facts) -> Iterator[Check]:
    """Every card that the driver shows."""
    found = cards(facts)
    if not found:
        yield from _none(facts)
        return
    for gpu in found:
        for check in (*_company(gpu), *_clock(facts, gpu), *_health(facts, gpu), _link(facts, gpu)):
            yield replace(check, where=card(gpu))


def _none(facts: Facts) -> Iterator[Check]:
    for cause in (BUSY, CLOCK, FAULTY, LINK):
        if present(facts) is False:
            yield Check(cause, "card", State.FINE, "no NVIDIA GPU here")
        else:
            why = at(facts, "gpu", "unmeasured") or "no card was told of"
            yield Check(cause, "card", State.UNCHECKED, f"the driver shows no card: {why}", missing=(Signal.CARD,))


def _company(gpu: Facts) -> Iterator[Check]:
    """Other processes with their memory, and a display."""
    name, total = "processes", figure(gpu.get("memory_total_bytes"))
    running = gpu.get("compute_processes")
    if not isinstance(running, list):
        yield Check(BUSY, name, State.UNCHECKED, "its processes are not told", missing=(Signal.CARD,))
        return
    others = rows(running)
    sizes = [figure(row.get("memory_used_bytes")) for row in others]
    held = sum(size or 0.0 for size in sizes)
    unknown = any(size is None for size in sizes)
    if others and (unknown or total is None or held >= LITTLE_SHARE * total):
        pids = ", ".join(str(row.get("pid")) for row in others[:5])
        of = f" of {gib(total)}" if total else ""
        says = f"{plural(len(others), 'other process')} compute on it (pid {pids})".replace("processs", "processes")
        says += ", their memory is not told" if unknown else f" and hold {gib(held)}{of}"
        remedy = (
            f"stop what is not needed (`ps -fp {pids.replace(' ', '')}`), or give this training a card of its own: "
        )
        remedy += "`export CUDA_VISIBLE_DEVICES=…`"
        numbers = {"processes": float(len(others)), "held_bytes": held}
        yield Check(BUSY, name, State.WRONG, says, remedy, numbers, ("nvml",))
    else:
        used, kept = figure(gpu.get("memory_used_bytes")) or 0.0, figure(gpu.get("memory_reserved_bytes"))
        says = "no other process computes on it"
        if kept:
            held = max(used - kept, 0.0)
            says += f" ({gib(held)} in use, and " if held else " ("
            says += f"{gib(kept)} kept by the driver)"
        elif used:
            says += f" ({gib(used)} in use, what the driver keeps for itself among it)"
        yield Check(BUSY, name, State.FINE, says, sources=("nvml",))
    if gpu.get("display_active"):
        says = "it drives a display, which takes some of its memory and time"
        yield Check(BUSY, "display", State.NOTED, says, sources=("nvml",))
    if gpu.get("mig_mode"):
        says = "it is split into MIG instances: a program gets one of them, a part of the card"
        yield Check(BUSY, "MIG", State.NOTED, says, sources=("nvml",))


def _loaded(facts: Facts, gpu: Facts) -> Facts | None:
    """What was read of this card while it worked."""
    found = (row for row in rows(at(facts, "load", "devices")) if row.get("index") == gpu.get("index"))
    return next(found, None)


def _clock(facts: Facts, gpu: Facts) -> Iterator[Check]:
    """What holds the clock down: at work, and what is so serious that it shows at rest as well."""
    name, load = "clock", _loaded(facts, gpu)
    bits = figure(load.get("throttle_bits")) if load else None
    hottest = figure(load.get("celsius")) if load else figure(gpu.get("celsius"))
    limit = figure(gpu.get("celsius_slowdown"))
    heat = f"{hottest:g} °C" if hottest is not None else "its temperature not told"
    heat += f", slows down at {limit:g} °C" if limit is not None else ""
    if bits is None:
        at_rest = set(gpu.get("throttle_reasons") or ()) & set(throttle_reasons(HOT | BRAKED) or ())
        if at_rest:
            says = f"held down even at rest: {', '.join(sorted(at_rest))} ({heat})"
            yield Check(CLOCK, name, State.WRONG, says, _cool(int(HOT)), sources=("nvml",))
        else:
            says = f"not read at work ({at(facts, 'load', 'unmeasured') or 'no load was run'}); {heat} now"
            yield Check(CLOCK, name, State.UNCHECKED, says, missing=(Signal.LOAD,))
    else:
        yield _at_work(gpu, load or {}, int(bits), heat)
    yield from _limits(gpu)


def _at_work(gpu: Facts, load: Facts, bits: int, heat: str) -> Check:
    name = "clock"
    clock, most, drawn = figure(load.get("sm_mhz")), figure(gpu.get("sm_mhz_max")), figure(load.get("power_watts"))
    computed = figure(load.get("computed_seconds"))
    figures = f"{clock:g} of {most:g} MHz, " if clock and most else ""
    figures += f"{drawn:.0f} W, {heat}" if drawn else heat
    says = f"{'at work' if computed else 'while copying'}: {figures}"
    reasons = throttle_reasons(bits) or []
    if bits & (HOT | BRAKED):
        return Check(
            CLOCK, name, State.WRONG, f"{says}; held down: {', '.join(reasons)}", _cool(bits), sources=("nvml",)
        )
    if bits & (POWER | SET_CLOCKS):
        return Check(CLOCK, name, State.NOTED, f"{says}; held down: {', '.join(reasons)}", sources=("nvml",))
    if not computed:
        # Copies make neither the heat nor the draw that hold a clock down.
        says = f"not read while it computes; {says}"
        return Check(CLOCK, name, State.UNCHECKED, says, missing=(Signal.LOAD,))
    return Check(CLOCK, name, State.FINE, f"nothing holds it down {says}", sources=("nvml",))


def _cool(bits: int) -> str:
    if bits & HOT:
        return (
            "let the card breathe: clean fans and filters, free the slot beside it, check the room; in a rented "
            "machine take another"
        )
    return (
        "check the card's power connectors and the power supply; `nvidia-smi -q -d PERFORMANCE,POWER` shows the reason"
    )


def _limits(gpu: Facts) -> Iterator[Check]:
    """Settings of the card that somebody made."""
    index = gpu.get("index")
    limit, usual = figure(gpu.get("power_limit_watts")), figure(gpu.get("power_limit_default_watts"))
    if limit and usual and limit < usual - 0.5:  # NVML gives milliwatts; half a watt is rounding
        says = f"its power is limited to {limit:g} W, its default is {usual:g} W"
        remedy = f"`sudo nvidia-smi -i {index} -pl {usual:g}`, unless the limit is meant"
        numbers = {"power_limit_watts": limit, "power_limit_default_watts": usual}
        yield Check(CLOCK, "power limit", State.WRONG, says, remedy, numbers, ("nvml",))
    elif limit and usual:
        yield Check(CLOCK, "power limit", State.FINE, f"{limit:g} W, its default", sources=("nvml",))
    if gpu.get("persistence_mode") is False:
        says = "persistence mode is off, so the driver starts anew for the first program (`nvidia-smi -pm 1`)"
        yield Check(CLOCK, "persistence", State.NOTED, says, sources=("nvml",))


def _health(facts: Facts, gpu: Facts) -> Iterator[Check]:
    """Memory errors and what was done about them; the driver's own fault reports."""
    name = "memory errors"
    bad = figure(gpu.get("ecc_uncorrected"))
    faults = []
    if bad:
        faults.append(f"{plural(bad, 'uncorrectable memory error')} since the driver was loaded")
    if gpu.get("remapping_failed"):
        faults.append("a bad memory row could not be remapped")
    if gpu.get("remapping_pending") or gpu.get("retired_pages_pending"):
        faults.append("bad memory waits for a reset of the card to be put out of use")
    if faults:
        remedy = f"stop its programs, then `sudo nvidia-smi --gpu-reset -i {gpu.get('index')}` or reboot; if it comes "
        remedy += "back, have the card replaced"
        yield Check(FAULTY, name, State.WRONG, f"{'; '.join(faults)}", remedy, sources=("nvml", "page-retirement"))
    elif gpu.get("ecc_mode") is False or (bad is None and gpu.get("ecc_mode") is None):
        says = "it keeps no count of memory errors (ECC is off, or it has none)"
        yield Check(FAULTY, name, State.UNCHECKED, says, missing=(Signal.CARD,))
    else:
        retired = figure(gpu.get("retired_pages")) or figure(gpu.get("remapped_rows")) or 0
        more = f", {retired:g} pages or rows retired in its life" if retired else ""
        yield Check(FAULTY, name, State.FINE, f"no uncorrectable memory error{more}", sources=("nvml",))
    yield _log(facts, gpu)


def _log(facts: Facts, gpu: Facts) -> Check:
    name, found = "fault log", at(facts, "kernel_log", "xids")
    if not isinstance(found, list):
        why = at(facts, "kernel_log", "unmeasured") or "it was not read"
        return Check(FAULTY, name, State.UNCHECKED, f"the kernel's log: {why}", missing=(Signal.CARD,))
    here = _address(gpu.get("pci_address"))
    mine = [row for row in rows(found) if here is None or _address(row.get("address")) == here]
    faulty = {int(row["code"]) for row in mine if isinstance(row.get("code"), int)} & set(FAULTY_XIDS)
    if faulty:
        says = "the driver reported " + "; ".join(f"XID {c}, {FAULTY_XIDS[c]}" for c in sorted(faulty))
        remedy = "`sudo dmesg | grep -i xid` shows when; reset the card or reboot; if it comes back, have it replaced"
        return Check(FAULTY, name, State.WRONG, says, remedy, sources=("xid", "page-retirement"))
    if mine:
        codes = ", ".join(dict.fromkeys(str(row.get("code")) for row in mine))
        says = f"XIDs {codes} in the kernel's log, which programs can cause too"
        return Check(FAULTY, name, State.NOTED, says, sources=("xid",))
    return Check(FAULTY, name, State.FINE, "no XID in the kernel's log", sources=("xid",))


def _address(said: object) -> str | None:
    """NVML writes 00000000:3B:00.0, the kernel 0000:3b:00."""
    parts = str(said or "").lower().split(".")[0].split(":")
    return ":".join(parts[-2:]) if len(parts) >= 2 else None


def _link(facts: Facts, gpu: Facts) -> Check:
    """The PCIe link at work against the most that card and slot can do together."""
    name, load = "link", _loaded(facts, gpu)
    most = [figure(gpu.get(f"pcie_{what}_max")) for what in ("generation", "width")]
    now = [figure(load.get(f"pcie_{what}")) if load else None for what in ("generation", "width")]
    if now[0] is None or now[1] is None or most[0] is None or most[1] is None:
        why = at(facts, "load", "unmeasured") or ("the driver does not tell" if load else "no load was run")
        says = f"its link was not read at work ({why}); at rest it shows less than it can"
        return Check(LINK, name, State.UNCHECKED, says, missing=(Signal.LOAD,))
    rate, possible = LANE_GBPS.get(int(now[0])), LANE_GBPS.get(int(most[0]))
    if rate is None or possible is None:
        says = f"PCIe {now[0]:g}.0 x{now[1]:g}, a generation that the table does not know"
        return Check(LINK, name, State.UNCHECKED, says, missing=(Signal.LOAD,))
    reached = figure((load or {}).get("bytes_per_second"))
    said = f"; copies reach {plain(reached / 1e9)} GB/s" if reached else ""
    says = f"at work PCIe {now[0]:g}.0 x{now[1]:g}, {plain(rate * now[1])} GB/s"
    numbers = {"link_gbps": rate * now[1], "possible_gbps": possible * most[1]}
    if rate * now[1] < possible * most[1]:
        says += f", where {most[0]:g}.0 x{most[1]:g}, {plain(possible * most[1])} GB/s, is possible{said}"
        remedy = (
            "seat the card anew, leave out a riser, use a slot with 16 lanes of its own, set the slot's generation "
        )
        remedy += "to automatic in the firmware; in a rented machine take another"
        return Check(LINK, name, State.WRONG, says, remedy, numbers, ("pcie-rate", "nvml"))
    says += f", the most here{said}"
    return Check(LINK, name, State.FINE, says, None, numbers, ("pcie-rate",))
