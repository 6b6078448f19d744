"""Words for what a device runs and waits for. A GPU runs kernels, a processor runs ops."""

from __future__ import annotations

from slowtrain.model import DeviceUse, Reached
from slowtrain.report import wording

#: Reasons that read differently for a processor, which runs ops and no kernels.
_PROCESSOR_WAITS = {
    "dispatch": "for the framework to start the next op",
    "queue": "between ops already queued",
    "command-buffer": "for ops that a run without the profiler starts at once",
}


def waiting_reason(reason: str, kind: str) -> str:
    """Why a device of this kind waits."""
    return (_PROCESSOR_WAITS.get(reason) if kind == "CPU" else None) or wording.WAITS.get(reason, reason)


def unit_names(kind: str) -> str:
    """What a device of this kind runs."""
    return "ops" if kind == "CPU" else "kernels"


def use_summary(device: DeviceUse) -> str:
    """How busy the device is, with how many kernels, and what rates they reach."""
    units = unit_names(device.kind)
    words = [
        f"busy {wording.share_or_unknown(device.busy_share)}",
        f"{wording.number_text(device.kernels)} {units} a step",
    ]
    words.append(f"median {wording.duration_text(device.median_kernel_us / 1e3)}")
    if device.queued_share is not None:
        queued = wording.share_or_unknown(device.queued_share)
        words.append(f"{queued} of them launched before the one before had ended")
    return " · ".join([*words, *map(_reached_rate, device.reached)])


def _reached_rate(one: Reached) -> str:
    """The rate of the ops whose shapes the profile has."""
    part = f", {wording.share_or_unknown(one.per_second / one.peak)} of the peak" if one.peak else ""
    if one.what == "memory":
        return f"elementwise ops move at least {wording.number_text(one.per_second / 1e9)} GB/s{part}"
    return f"matrix products in {one.what} reach {wording.number_text(one.per_second / 1e12)} TFLOP/s{part}"
