"""Checks of each GPU: other processes on it, its clocks, its health, its PCIe link."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from slowtrain.machine.tables.fact_access import (
    Facts,
    describe_throttle_bits,
    driver_gpus,
    format_bytes,
    gpu_label,
    has_nvidia_gpu,
    nested_fact,
    number_or_none,
    object_rows,
)
from slowtrain.machine.tables.rule_table import FAULTY_XIDS, LANE_GBPS
from slowtrain.machine.tables.thresholds import MIN_HELD_CARD_SHARE, MIN_LINK_RATE_SHARE
from slowtrain.model import Signal
from slowtrain.model.inspections import Check, CheckState
from slowtrain.number_text import format_count, format_number

BUSY_GPU, THROTTLED_CLOCK, FAULTY_GPU, SLOW_LINK = "other processes", "clocks", "card health", "link"  # topics
MAX_NAMED_PROCESSES = 5  # process ids that a sentence lists
OVERHEATING_BITS = 0x20 | 0x40  # software and hardware thermal slowdown
BRAKE_BITS = 0x8 | 0x80  # hardware slowdown, external power brake
POWER_LIMIT_BIT = 0x4
APPLICATION_CLOCK_BIT = 0x2


def check_gpus(facts: Facts) -> Iterator[Check]:
    """Checks every GPU that the driver shows."""
    found = driver_gpus(facts)
    if not found:
        yield from _checks_without_gpu(facts)
        return
    for gpu in found:
        for check in (
            *_sharing_checks(facts, gpu),
            *_clock_checks(facts, gpu),
            *_health_checks(facts, gpu),
            _link_check(facts, gpu),
        ):
            yield replace(check, where=gpu_label(gpu))


def _checks_without_gpu(facts: Facts) -> Iterator[Check]:
    for topic in (BUSY_GPU, THROTTLED_CLOCK, FAULTY_GPU, SLOW_LINK):
        if has_nvidia_gpu(facts) is False:
            yield Check(topic, "card", CheckState.FINE, "no NVIDIA GPU here")
        else:
            why = nested_fact(facts, "gpu", "unmeasured") or "no card was reported"
            yield Check(topic, "card", CheckState.UNCHECKED, f"the driver shows no card: {why}", missing=(Signal.CARD,))


def _sharing_checks(facts: Facts, gpu: Facts) -> Iterator[Check]:
    """Checks which other processes use the GPU, whether it drives a display, and whether MIG is on."""
    running = gpu.get("compute_processes")
    computing = [row.get("pid") for row in object_rows(running)]
    drawing = [row for row in object_rows(gpu.get("graphics_processes")) if row.get("pid") not in computing]
    shows = ["it drives a display, which uses some of its memory and time"] if gpu.get("display_active") else []
    shows += [_describe_processes(drawing, "draw")] if drawing else []
    if not isinstance(running, list):
        says = "; ".join(["the driver does not report its processes", *shows])
        yield Check(BUSY_GPU, "processes", CheckState.UNCHECKED, says, missing=(Signal.CARD,))
        return
    yield _process_check(facts, gpu, object_rows(running))
    if shows:
        yield Check(BUSY_GPU, "display", CheckState.NOTED, "; ".join(shows), sources=("nvml",))
    if gpu.get("mig_mode"):
        instances = number_or_none(gpu.get("mig_instances"))
        parts = "MIG instances" if instances is None else format_count(instances, "MIG instance")
        says = f"it is split into {parts}, and a program gets only one of them"
        says = "MIG is on, and no instance was created" if instances == 0 else says
        yield Check(BUSY_GPU, "MIG", CheckState.NOTED, says, sources=("nvml",))


def _process_check(facts: Facts, gpu: Facts, others: list[Facts]) -> Check:
    """Checks the compute processes that the driver lists, and memory in use that belongs to no listed process."""
    name, total = "processes", number_or_none(gpu.get("memory_total_bytes"))
    held_bytes = _held_bytes(others)
    if others and (held_bytes is None or total is None or held_bytes >= MIN_HELD_CARD_SHARE * total):
        pids = ",".join(str(row.get("pid")) for row in others[:MAX_NAMED_PROCESSES])
        where = " on the host" if nested_fact(facts, "devices", "own_pid_namespace") else ""
        remedy = f"stop what is not needed (`ps -fp {pids}`{where})"
        idle = [str(g.get("index")) for g in driver_gpus(facts) if g.get("compute_processes") == []]
        if idle:
            free = f"`export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={idle[0]}`"
            remedy += f", or use an idle card: {free}"
        numbers = {"processes": float(len(others)), "held_bytes": held_bytes or 0.0}
        says = _describe_processes(others, "compute", total)
        return Check(BUSY_GPU, name, CheckState.WRONG, says, remedy, numbers, ("nvml", "host-numbers", "own-choice"))
    if others:
        return Check(BUSY_GPU, name, CheckState.NOTED, _describe_processes(others, "compute", total),
                     sources=("nvml", "host-numbers", "own-choice"))  # fmt: skip
    used, reserved_bytes = (
        number_or_none(gpu.get("memory_used_bytes")) or 0.0,
        number_or_none(gpu.get("memory_reserved_bytes")),
    )
    drawn = _held_bytes(object_rows(gpu.get("graphics_processes"))) or 0.0
    says = "the driver lists no other compute process on it"
    if reserved_bytes is None:
        says += f" ({format_bytes(used)} in use, including what the driver keeps for itself)" if used else ""
        return Check(BUSY_GPU, name, CheckState.FINE, says, sources=("nvml",))
    held_bytes = max(used - reserved_bytes, 0.0)
    if total and held_bytes - drawn >= MIN_HELD_CARD_SHARE * total:
        says += f", but {format_bytes(held_bytes)} of {format_bytes(total)} are in use by unknown processes"
        return Check(BUSY_GPU, name, CheckState.NOTED, says, sources=("nvml", "own-choice"))
    says += f" ({format_bytes(held_bytes)} in use, and " if held_bytes else " ("
    return Check(
        BUSY_GPU,
        name,
        CheckState.FINE,
        f"{says}{format_bytes(reserved_bytes)} kept by the driver)",
        sources=("nvml", "own-choice"),
    )


def _held_bytes(processes: list[Facts]) -> float | None:
    """Memory that these processes hold together; None unless the driver reports it for every process."""
    sizes = [number_or_none(row.get("memory_used_bytes")) for row in processes]
    return None if None in sizes else sum(size or 0.0 for size in sizes)


def _describe_processes(processes: list[Facts], verb: str, total: float | None = None) -> str:
    """A clause: which processes use the GPU, and how much of its memory they hold."""
    pids, held_bytes = ", ".join(str(row.get("pid")) for row in processes[:MAX_NAMED_PROCESSES]), _held_bytes(processes)
    one = len(processes) == 1
    says = f"1 other process (pid {pids}) {verb}s" if one else f"{len(processes)} other processes (pid {pids}) {verb}"
    if held_bytes is None:
        return f"{says} on it, {'its' if one else 'their'} memory use is unknown"
    return f"{says} on it and hold{'s' if one else ''} {format_bytes(held_bytes)}" + (
        f" of {format_bytes(total)}" if total else ""
    )


def _find_load_sample(facts: Facts, gpu: Facts) -> Facts | None:
    """What was sampled of this GPU while it worked."""
    found = (row for row in object_rows(nested_fact(facts, "load", "devices")) if row.get("index") == gpu.get("index"))
    return next(found, None)


def _clock_checks(facts: Facts, gpu: Facts) -> Iterator[Check]:
    """Checks why the clock is reduced: under load if that was sampled, else only reasons that also show at rest."""
    name, load = "clock", _find_load_sample(facts, gpu)
    bits = number_or_none(load.get("throttle_bits")) if load else None
    hottest = number_or_none(load.get("celsius")) if load else number_or_none(gpu.get("celsius"))
    limit = number_or_none(gpu.get("celsius_slowdown"))
    heat = f"{hottest:g} °C{'' if load else ' now'}" if hottest is not None else "its temperature unknown"
    heat += f", slows down at {limit:g} °C" if limit is not None else ""
    if bits is None:
        at_rest = set(gpu.get("throttle_reasons") or ()) & set(
            describe_throttle_bits(OVERHEATING_BITS | BRAKE_BITS) or ()
        )
        if at_rest:
            says = f"its clock is limited even at rest: {', '.join(sorted(at_rest))} ({heat})"
            yield Check(
                THROTTLED_CLOCK, name, CheckState.WRONG, says, _cooling_remedy(int(OVERHEATING_BITS)), sources=("nvml",)
            )
        else:
            says = f"not read under load ({nested_fact(facts, 'load', 'unmeasured') or 'no load was run'}); {heat}"
            yield Check(THROTTLED_CLOCK, name, CheckState.UNCHECKED, says, missing=(Signal.LOAD,))
    else:
        yield _clock_check_under_load(gpu, load or {}, int(bits), heat)
    yield from _power_setting_checks(gpu)


def _clock_check_under_load(gpu: Facts, load: Facts, bits: int, heat: str) -> Check:
    name = "clock"
    clock, most, drawn = (
        number_or_none(load.get("sm_mhz")),
        number_or_none(gpu.get("sm_mhz_max")),
        number_or_none(load.get("power_watts")),
    )
    computed = number_or_none(load.get("computed_seconds"))
    figures = f"{clock:g} of {most:g} MHz, " if clock and most else ""
    figures += f"{drawn:.0f} W, {heat}" if drawn else heat
    says = f"{'under load' if computed else 'while copying'}: {figures}"
    reasons = describe_throttle_bits(bits) or []
    if bits & (OVERHEATING_BITS | BRAKE_BITS):
        return Check(
            THROTTLED_CLOCK,
            name,
            CheckState.WRONG,
            f"{says}; clock limited by: {', '.join(reasons)}",
            _cooling_remedy(bits),
            sources=("nvml",),
        )
    if bits & (POWER_LIMIT_BIT | APPLICATION_CLOCK_BIT):
        says += f"; clock limited by: {', '.join(reasons)}"
        return Check(THROTTLED_CLOCK, name, CheckState.NOTED, says, sources=("nvml",))
    if not computed:
        # Copies alone cause neither the heat nor the power draw that reduces a clock.
        says = f"not read while it computes; {says}"
        return Check(THROTTLED_CLOCK, name, CheckState.UNCHECKED, says, missing=(Signal.LOAD,))
    return Check(THROTTLED_CLOCK, name, CheckState.FINE, f"nothing limits it {says}", sources=("nvml",))


def _cooling_remedy(bits: int) -> str:
    if bits & OVERHEATING_BITS:
        return (
            "improve the cooling: clean fans and filters, leave the next slot free, check the room's temperature; "
            "replace a rented machine"
        )
    return (
        "check the card's power connectors and the power supply; `nvidia-smi -q -d PERFORMANCE,POWER` shows the reason"
    )


def _power_setting_checks(gpu: Facts) -> Iterator[Check]:
    """Checks settings of the GPU that an administrator made: power limit, persistence mode."""
    index = gpu.get("index")
    limit, usual = number_or_none(gpu.get("power_limit_watts")), number_or_none(gpu.get("power_limit_default_watts"))
    if limit and usual and limit < usual - 0.5:  # NVML gives milliwatts; half a watt is rounding
        says = f"its power limit is {limit:g} W, its default is {usual:g} W"
        remedy = f"`sudo nvidia-smi -i {index} -pl {usual:g}`, unless the limit is intended"
        numbers = {"power_limit_watts": limit, "power_limit_default_watts": usual}
        yield Check(THROTTLED_CLOCK, "power limit", CheckState.WRONG, says, remedy, numbers, ("nvml",))
    elif limit and usual:
        says = f"{limit:g} W, above its default of {usual:g} W" if limit > usual + 0.5 else f"{limit:g} W, its default"
        yield Check(THROTTLED_CLOCK, "power limit", CheckState.FINE, says, sources=("nvml",))
    else:
        says = "its power limit is unknown" if usual else "its default power limit is unknown"
        yield Check(THROTTLED_CLOCK, "power limit", CheckState.UNCHECKED, says, missing=(Signal.CARD,))
    if gpu.get("persistence_mode") is False:
        says = "persistence mode is off, so the driver is loaded again for the first program (`nvidia-smi -pm 1`)"
        yield Check(THROTTLED_CLOCK, "persistence", CheckState.NOTED, says, sources=("nvml",))


def _health_checks(facts: Facts, gpu: Facts) -> Iterator[Check]:
    """Checks memory errors, the repairs that followed, and the driver's own fault reports."""
    name = "memory errors"
    bad = number_or_none(gpu.get("ecc_uncorrected"))
    faults = []
    if bad:
        faults.append(f"{format_count(bad, 'uncorrectable memory error')} since the driver was loaded")
    if gpu.get("remapping_failed"):
        faults.append("a bad memory row could not be remapped")
    if gpu.get("remapping_pending") or gpu.get("retired_pages_pending"):
        faults.append("a bad memory row is retired only at the next reset of the card")
    if faults:
        remedy = f"stop its programs, then `sudo nvidia-smi --gpu-reset -i {gpu.get('index')}` or reboot; if it comes "
        remedy += "back, have the card replaced"
        yield Check(
            FAULTY_GPU, name, CheckState.WRONG, f"{'; '.join(faults)}", remedy, sources=("nvml", "page-retirement")
        )
    elif gpu.get("ecc_mode") is False or bad is None:
        says = "it does not count memory errors (ECC is off or missing)"
        says = "ECC is on, but its count of memory errors is unknown" if gpu.get("ecc_mode") else says
        yield Check(FAULTY_GPU, name, CheckState.UNCHECKED, says, missing=(Signal.CARD,))
    else:
        retired = number_or_none(gpu.get("retired_pages")) or number_or_none(gpu.get("remapped_rows")) or 0
        more = f", {retired:g} pages or rows retired in its lifetime" if retired else ""
        mended = number_or_none(gpu.get("ecc_corrected"))
        more = (f", {format_count(mended, 'corrected one')}" if mended else "") + more
        ever = number_or_none(gpu.get("ecc_uncorrected_ever"))
        more = (f" since the driver was loaded ({ever:g} in its lifetime)" if ever else "") + more
        yield Check(FAULTY_GPU, name, CheckState.FINE, f"no uncorrectable memory error{more}", sources=("nvml",))
    yield _fault_log_check(facts, gpu)


def _fault_log_check(facts: Facts, gpu: Facts) -> Check:
    name, found = "fault log", nested_fact(facts, "kernel_log", "xids")
    if not isinstance(found, list):
        why = nested_fact(facts, "kernel_log", "unmeasured") or "it was not read"
        return Check(FAULTY_GPU, name, CheckState.UNCHECKED, f"the kernel's log: {why}", missing=(Signal.CARD,))
    here = _short_pci_address(gpu.get("pci_address"))
    mine = [row for row in object_rows(found) if here is None or _short_pci_address(row.get("address")) == here]
    often: dict[str, float] = {}
    for row in mine:
        often[str(row.get("code"))] = often.get(str(row.get("code")), 0.0) + (number_or_none(row.get("count")) or 1.0)
    times = {code: f"{code} ({format_count(n, 'time')})" if n > 1 else code for code, n in often.items()}
    faulty = [code for code in sorted(FAULTY_XIDS) if str(code) in often]
    if faulty:
        says = "the driver reported " + "; ".join(f"XID {times[str(c)]}, {FAULTY_XIDS[c]}" for c in faulty)
        remedy = "`sudo dmesg | grep -i xid` shows when; reset the card or reboot; if it comes back, have it replaced"
        return Check(FAULTY_GPU, name, CheckState.WRONG, says, remedy, sources=("xid", "page-retirement"))
    if mine:
        says = f"XIDs {', '.join(times.values())} in the kernel's log, which programs can also cause"
        return Check(FAULTY_GPU, name, CheckState.NOTED, says, sources=("xid",))
    return Check(FAULTY_GPU, name, CheckState.FINE, "no XID in the kernel's log", sources=("xid",))


def _short_pci_address(address: object) -> str | None:
    """The last two parts of a PCI address. NVML writes 00000000:3B:00.0, the kernel 0000:3b:00."""
    parts = str(address or "").lower().split(".")[0].split(":")
    return ":".join(parts[-2:]) if len(parts) >= 2 else None


def _link_check(facts: Facts, gpu: Facts) -> Check:
    """Compares the PCIe link under load with the most that card and slot support."""
    name, load = "link", _find_load_sample(facts, gpu)
    most = [number_or_none(gpu.get(f"pcie_{what}_max")) or 0.0 for what in ("generation", "width")]
    now = [(number_or_none(load.get(f"pcie_{what}")) if load else None) or 0.0 for what in ("generation", "width")]
    if min(*now, *most) <= 0:
        why = nested_fact(facts, "load", "unmeasured") or ("not reported by the driver" if load else "no load was run")
        says = f"its link was not read under load ({why}); at rest it reports a lower speed than it can reach"
        return Check(SLOW_LINK, name, CheckState.UNCHECKED, says, missing=(Signal.LOAD,))
    rate, possible = LANE_GBPS.get(int(now[0])), LANE_GBPS.get(int(most[0]))
    if rate is None or possible is None:
        says = f"PCIe {now[0]:g}.0 x{now[1]:g}, an unknown generation"
        return Check(SLOW_LINK, name, CheckState.UNCHECKED, says, missing=(Signal.LOAD,))
    reached = number_or_none((load or {}).get("bytes_per_second"))
    copy_rate = f"; copies reach {format_number(reached / 1e9)} GB/s" if reached else ""
    says = f"under load PCIe {now[0]:g}.0 x{now[1]:g}, {format_number(rate * now[1])} GB/s"
    numbers = {"link_gbps": rate * now[1], "possible_gbps": possible * most[1]}
    if rate * now[1] < possible * most[1]:
        says += f", where {most[0]:g}.0 x{most[1]:g}, {format_number(possible * most[1])} GB/s, is possible{copy_rate}"
        remedy = "reseat the card, remove a riser, use a slot with 16 lanes of its own, set the slot's generation "
        remedy += "to automatic in the firmware; replace a rented machine"
        return Check(SLOW_LINK, name, CheckState.WRONG, says, remedy, numbers, ("pcie-rate", "nvml"))
    says += f", the maximum here{copy_rate}"
    if reached and reached / 1e9 < MIN_LINK_RATE_SHARE * rate * now[1]:
        says += ", less than half of that"
        return Check(SLOW_LINK, name, CheckState.NOTED, says, None, numbers, ("pcie-rate", "own-choice"))
    return Check(SLOW_LINK, name, CheckState.FINE, says, None, numbers, ("pcie-rate",))
