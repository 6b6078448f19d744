"""Checks of each GPU: other processes on it, its clocks, its health, its PCIe link."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slowtrain.figures import counted, plain
from slowtrain.machine.choices import LITTLE_SHARE, ODD_SHARE
from slowtrain.machine.gpu import throttle_reasons
from slowtrain.machine.reading import Facts, at, card, cards, figure, gib, present, rows
from slowtrain.machine.rules import FAULTY_XIDS, LANE_GBPS
from slowtrain.model import Signal
from slowtrain.model.sheet import Check, State

BUSY, CLOCK, FAULTY, LINK = (
    "machine/busy-gpu", "machine/throttled-clock", "machine/faulty-gpu", "transfer/slow-link",
)  # fmt: skip
MOST_NAMED = 5  # process ids that a sentence lists
HOT = 0x20 | 0x40  # software and hardware thermal slowdown
BRAKED = 0x8 | 0x80  # hardware slowdown, external power brake
POWER = 0x4
SET_CLOCKS = 0x2


def carding(facts: Facts) -> Iterator[Check]:
    """Checks every GPU that the driver shows."""
    found = cards(facts)
    if not found:
        yield from _none(facts)
        return
    for gpu in found:
        for check in (*_company(facts, gpu), *_clock(facts, gpu), *_health(facts, gpu), _link(facts, gpu)):
            yield replace(check, where=card(gpu))


def _none(facts: Facts) -> Iterator[Check]:
    for cause in (BUSY, CLOCK, FAULTY, LINK):
        if present(facts) is False:
            yield Check(cause, "card", State.FINE, "no NVIDIA GPU here")
        else:
            why = at(facts, "gpu", "unmeasured") or "no card was told of"
            yield Check(cause, "card", State.UNCHECKED, f"the driver shows no card: {why}", missing=(Signal.CARD,))


def _company(facts: Facts, gpu: Facts) -> Iterator[Check]:
    """Checks which other processes use the GPU, whether it drives a display, and whether MIG is on."""
    running = gpu.get("compute_processes")
    computing = [row.get("pid") for row in rows(running)]
    drawing = [row for row in rows(gpu.get("graphics_processes")) if row.get("pid") not in computing]
    shows = ["it drives a display, which takes some of its memory and time"] if gpu.get("display_active") else []
    shows += [_does(drawing, "draw")] if drawing else []
    if not isinstance(running, list):
        says = "; ".join(["its processes are not told", *shows])
        yield Check(BUSY, "processes", State.UNCHECKED, says, missing=(Signal.CARD,))
        return
    yield _processes(facts, gpu, rows(running))
    if shows:
        yield Check(BUSY, "display", State.NOTED, "; ".join(shows), sources=("nvml",))
    if gpu.get("mig_mode"):
        instances = figure(gpu.get("mig_instances"))
        parts = "MIG instances" if instances is None else counted(instances, "MIG instance")
        says = f"it is split into {parts}: a program gets one of them, a part of the card"
        says = "MIG is on, and no instance was made" if instances == 0 else says
        yield Check(BUSY, "MIG", State.NOTED, says, sources=("nvml",))


def _processes(facts: Facts, gpu: Facts, others: list[Facts]) -> Check:
    """Checks the compute processes that the driver lists, and memory in use that belongs to no listed process."""
    name, total = "processes", figure(gpu.get("memory_total_bytes"))
    held = _held(others)
    if others and (held is None or total is None or held >= LITTLE_SHARE * total):
        pids = ",".join(str(row.get("pid")) for row in others[:MOST_NAMED])
        where = " on the host" if at(facts, "devices", "own_pid_namespace") else ""
        remedy = f"stop what is not needed (`ps -fp {pids}`{where})"
        idle = [str(g.get("index")) for g in cards(facts) if g.get("compute_processes") == []]
        if idle:
            free = f"`export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={idle[0]}`"
            remedy += f", or take a card on which nobody computes: {free}"
        numbers = {"processes": float(len(others)), "held_bytes": held or 0.0}
        says = _does(others, "compute", total)
        return Check(BUSY, name, State.WRONG, says, remedy, numbers, ("nvml", "host-numbers", "own-choice"))
    if others:
        return Check(BUSY, name, State.NOTED, _does(others, "compute", total),
                     sources=("nvml", "host-numbers", "own-choice"))  # fmt: skip
    used, kept = figure(gpu.get("memory_used_bytes")) or 0.0, figure(gpu.get("memory_reserved_bytes"))
    drawn = _held(rows(gpu.get("graphics_processes"))) or 0.0
    says = "the driver lists no other process that computes on it"
    if kept is None:
        says += f" ({gib(used)} in use, what the driver keeps for itself among it)" if used else ""
        return Check(BUSY, name, State.FINE, says, sources=("nvml",))
    held = max(used - kept, 0.0)
    if total and held - drawn >= LITTLE_SHARE * total:
        says += f", and {gib(held)} of {gib(total)} are in use: by whom it does not tell"
        return Check(BUSY, name, State.NOTED, says, sources=("nvml", "own-choice"))
    says += f" ({gib(held)} in use, and " if held else " ("
    return Check(BUSY, name, State.FINE, f"{says}{gib(kept)} kept by the driver)", sources=("nvml", "own-choice"))


def _held(processes: list[Facts]) -> float | None:
    """Memory that these processes hold together; None unless the driver reports it for every process."""
    sizes = [figure(row.get("memory_used_bytes")) for row in processes]
    return None if None in sizes else sum(size or 0.0 for size in sizes)


def _does(processes: list[Facts], verb: str, total: float | None = None) -> str:
    """A clause: which processes use the GPU, and how much of its memory they hold."""
    pids, held = ", ".join(str(row.get("pid")) for row in processes[:MOST_NAMED]), _held(processes)
    one = len(processes) == 1
    says = f"1 other process (pid {pids}) {verb}s" if one else f"{len(processes)} other processes (pid {pids}) {verb}"
    if held is None:
        return f"{says} on it, {'its' if one else 'their'} memory is not told"
    return f"{says} on it and hold{'s' if one else ''} {gib(held)}" + (f" of {gib(total)}" if total else "")


def _loaded(facts: Facts, gpu: Facts) -> Facts | None:
    """What was sampled of this GPU while it worked."""
    found = (row for row in rows(at(facts, "load", "devices")) if row.get("index") == gpu.get("index"))
    return next(found, None)


def _clock(facts: Facts, gpu: Facts) -> Iterator[Check]:
    """Checks why the clock is reduced: under load if that was sampled, else only reasons that also show at rest."""
    name, load = "clock", _loaded(facts, gpu)
    bits = figure(load.get("throttle_bits")) if load else None
    hottest = figure(load.get("celsius")) if load else figure(gpu.get("celsius"))
    limit = figure(gpu.get("celsius_slowdown"))
    heat = f"{hottest:g} °C{'' if load else ' now'}" if hottest is not None else "its temperature not told"
    heat += f", slows down at {limit:g} °C" if limit is not None else ""
    if bits is None:
        at_rest = set(gpu.get("throttle_reasons") or ()) & set(throttle_reasons(HOT | BRAKED) or ())
        if at_rest:
            says = f"held down even at rest: {', '.join(sorted(at_rest))} ({heat})"
            yield Check(CLOCK, name, State.WRONG, says, _cool(int(HOT)), sources=("nvml",))
        else:
            says = f"not read at work ({at(facts, 'load', 'unmeasured') or 'no load was run'}); {heat}"
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
        # Copies alone cause neither the heat nor the power draw that reduces a clock.
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
    """Checks settings of the GPU that an administrator made: power limit, persistence mode."""
    index = gpu.get("index")
    limit, usual = figure(gpu.get("power_limit_watts")), figure(gpu.get("power_limit_default_watts"))
    if limit and usual and limit < usual - 0.5:  # NVML gives milliwatts; half a watt is rounding
        says = f"its power is limited to {limit:g} W, its default is {usual:g} W"
        remedy = f"`sudo nvidia-smi -i {index} -pl {usual:g}`, unless the limit is meant"
        numbers = {"power_limit_watts": limit, "power_limit_default_watts": usual}
        yield Check(CLOCK, "power limit", State.WRONG, says, remedy, numbers, ("nvml",))
    elif limit and usual:
        says = f"{limit:g} W, above its default of {usual:g} W" if limit > usual + 0.5 else f"{limit:g} W, its default"
        yield Check(CLOCK, "power limit", State.FINE, says, sources=("nvml",))
    else:
        says = "its power limit is not told" if usual else "its default power limit is not told"
        yield Check(CLOCK, "power limit", State.UNCHECKED, says, missing=(Signal.CARD,))
    if gpu.get("persistence_mode") is False:
        says = "persistence mode is off, so the driver starts anew for the first program (`nvidia-smi -pm 1`)"
        yield Check(CLOCK, "persistence", State.NOTED, says, sources=("nvml",))


def _health(facts: Facts, gpu: Facts) -> Iterator[Check]:
    """Checks memory errors, the repairs that followed, and the driver's own fault reports."""
    name = "memory errors"
    bad = figure(gpu.get("ecc_uncorrected"))
    faults = []
    if bad:
        faults.append(f"{counted(bad, 'uncorrectable memory error')} since the driver was loaded")
    if gpu.get("remapping_failed"):
        faults.append("a bad memory row could not be remapped")
    if gpu.get("remapping_pending") or gpu.get("retired_pages_pending"):
        faults.append("bad memory waits for a reset of the card to be put out of use")
    if faults:
        remedy = f"stop its programs, then `sudo nvidia-smi --gpu-reset -i {gpu.get('index')}` or reboot; if it comes "
        remedy += "back, have the card replaced"
        yield Check(FAULTY, name, State.WRONG, f"{'; '.join(faults)}", remedy, sources=("nvml", "page-retirement"))
    elif gpu.get("ecc_mode") is False or bad is None:
        says = "it keeps no count of memory errors (ECC is off, or it has none)"
        says = "ECC is on, and its count of memory errors is not told" if gpu.get("ecc_mode") else says
        yield Check(FAULTY, name, State.UNCHECKED, says, missing=(Signal.CARD,))
    else:
        retired = figure(gpu.get("retired_pages")) or figure(gpu.get("remapped_rows")) or 0
        more = f", {retired:g} pages or rows retired in its life" if retired else ""
        mended = figure(gpu.get("ecc_corrected"))
        more = (f", {counted(mended, 'corrected one')}" if mended else "") + more
        ever = figure(gpu.get("ecc_uncorrected_ever"))
        more = (f" since the driver was loaded ({ever:g} in its life)" if ever else "") + more
        yield Check(FAULTY, name, State.FINE, f"no uncorrectable memory error{more}", sources=("nvml",))
    yield _log(facts, gpu)


def _log(facts: Facts, gpu: Facts) -> Check:
    name, found = "fault log", at(facts, "kernel_log", "xids")
    if not isinstance(found, list):
        why = at(facts, "kernel_log", "unmeasured") or "it was not read"
        return Check(FAULTY, name, State.UNCHECKED, f"the kernel's log: {why}", missing=(Signal.CARD,))
    here = _address(gpu.get("pci_address"))
    mine = [row for row in rows(found) if here is None or _address(row.get("address")) == here]
    often: dict[str, float] = {}
    for row in mine:
        often[str(row.get("code"))] = often.get(str(row.get("code")), 0.0) + (figure(row.get("count")) or 1.0)
    times = {code: f"{code} ({counted(n, 'time')})" if n > 1 else code for code, n in often.items()}
    faulty = [code for code in sorted(FAULTY_XIDS) if str(code) in often]
    if faulty:
        says = "the driver reported " + "; ".join(f"XID {times[str(c)]}, {FAULTY_XIDS[c]}" for c in faulty)
        remedy = "`sudo dmesg | grep -i xid` shows when; reset the card or reboot; if it comes back, have it replaced"
        return Check(FAULTY, name, State.WRONG, says, remedy, sources=("xid", "page-retirement"))
    if mine:
        says = f"XIDs {', '.join(times.values())} in the kernel's log, which programs can cause too"
        return Check(FAULTY, name, State.NOTED, says, sources=("xid",))
    return Check(FAULTY, name, State.FINE, "no XID in the kernel's log", sources=("xid",))


def _address(said: object) -> str | None:
    """The last two parts of a PCI address. NVML writes 00000000:3B:00.0, the kernel 0000:3b:00."""
    parts = str(said or "").lower().split(".")[0].split(":")
    return ":".join(parts[-2:]) if len(parts) >= 2 else None


def _link(facts: Facts, gpu: Facts) -> Check:
    """Compares the PCIe link under load with the most that card and slot support."""
    name, load = "link", _loaded(facts, gpu)
    most = [figure(gpu.get(f"pcie_{what}_max")) or 0.0 for what in ("generation", "width")]
    now = [(figure(load.get(f"pcie_{what}")) if load else None) or 0.0 for what in ("generation", "width")]
    if min(*now, *most) <= 0:
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
    if reached and reached / 1e9 < ODD_SHARE * rate * now[1]:
        says += ", less than half of that"
        return Check(LINK, name, State.NOTED, says, None, numbers, ("pcie-rate", "own-choice"))
    return Check(LINK, name, State.FINE, says, None, numbers, ("pcie-rate",))
