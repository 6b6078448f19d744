"""What a device runs and waits for, in words: a GPU runs kernels, a processor ops."""

from __future__ import annotations

from slowtrain.report import wording

#: Of a processor, which runs ops and no kernels.
_PROCESSOR_WAITS = {
    "dispatch": "for the framework to start the next op",
    "queue": "between ops already queued",
    "command-buffer": "for ops that a run without the profiler starts at once",
}


def waits(reason: str, kind: str) -> str:
    """Why a device of this kind waits."""
    return (_PROCESSOR_WAITS.get(reason) if kind == "CPU" else None) or wording.WAITS.get(reason, reason)


def ops(kind: str) -> str:
    """What a device of this kind runs."""
    return "ops" if kind == "CPU" else "kernels"
