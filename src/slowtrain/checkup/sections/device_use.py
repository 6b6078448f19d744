"""A device's section of the checkup: busy and idle time, idle reasons, gaps and ops."""

from __future__ import annotations

from slowtrain.columns.device import Device
from slowtrain.model import Attribution, DeviceUse, OpTime, Part
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import achieved_rates

MAX_LISTED_OPS = 15


def device_use(trace: Trace) -> DeviceUse | None:
    """The section; None if no device timeline was read."""
    device = trace.device
    if device is None:
        return None
    idle = device.idle_ms
    parts = sorted(device.idle.items(), key=lambda i: -i[1])
    return DeviceUse(
        device.name.removeprefix("/device:"),
        device.kind,
        min(device.busy_ms / device.step_ms, 1.0) if device.step_ms else 0.0,
        device.kernels,
        device.median_kernel_us,
        device.launch_delay_us,
        device.queued_share,
        Attribution(idle, tuple(Part(reason, ms, ms / idle if idle else 0.0) for reason, ms in parts)),
        device.gaps,
        _op_times(device),
        tuple(
            OpTime(k, c.ms, c.count, c.exposed_ms / (c.ms or 1.0), c.bytes or None) for k, c in device.copies.items()
        ),
        tuple(achieved_rates.device_rates(trace)),
    )


def _op_times(device: Device) -> tuple[OpTime, ...]:
    """By the framework's ops if these cover most of the time, else by kernels."""
    named = sum(ms for ms, _ in device.by_op.values())
    table = device.by_op if device.kernel_ms and named >= 0.5 * device.kernel_ms else device.by_kernel
    # The table of ops contains copies as well.
    total = max(sum(ms for ms, _ in table.values()), device.kernel_ms)
    rows = list(table.items())[:MAX_LISTED_OPS]
    return tuple(OpTime(name.split("#")[0], ms, count, ms / total if total else 0.0) for name, (ms, count) in rows)
