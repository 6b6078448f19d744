"""Limits how much of a run is kept for a replay, to a share of the free memory."""

from __future__ import annotations

from collections.abc import Callable

from slowtrain.capture.core.recorder import now

# Two states, up to three more during a replay, and the inputs of the steps: a quarter stays free.
BUDGET_SHARE = 1 / 8
MAX_CARD_BYTES = (
    256 << 20
)  # of a card's memory, for which the framework's pool does not report free bytes, and of an unknown host
READING_PERIOD_NS = 5_000_000_000  # between two readings, which take half a millisecond


class MemoryBudget:
    """The limit for one kind of data: states, batches, or the variables of one step."""

    def __init__(self, free: Callable[[], int | None] | None = None) -> None:
        self._free = _free_host_bytes if free is None else free
        self._bytes = 0
        self._due_ns = 0

    def holds(self, size: int, kept: int = 0, *, on_card: bool = False) -> bool:
        """Returns whether ``size`` bytes fit. ``kept`` bytes are kept already, and would be free without us."""
        if on_card:
            return size <= MAX_CARD_BYTES
        if size > self._bytes or now() >= self._due_ns:
            free = self._free()
            self._bytes = MAX_CARD_BYTES if free is None else int(BUDGET_SHARE * (free + kept))
            self._due_ns = now() + READING_PERIOD_NS
        return size <= self._bytes

    def refusal_reason(self, size: int) -> str:
        """Returns the reason why ``size`` bytes are not kept."""
        limit = f"{self._bytes / 1e6:.0f} MB are kept, an eighth of the memory that is free"
        return f"{size / 1e6:.0f} MB, and up to {limit}"


def _free_host_bytes() -> int | None:
    from slowtrain.machine.host.host_facts import free_bytes  # imported late, to keep the script's start fast

    return free_bytes()


def is_on_card(tensor: object) -> bool:
    """Returns whether a TensorFlow tensor is in a card's memory, and not in the host's."""
    return "CPU" not in str(getattr(tensor, "backing_device", "CPU"))
