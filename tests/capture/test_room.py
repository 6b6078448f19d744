"""How much may be kept to go back to: a share of what is free."""

from __future__ import annotations

import pytest

from slowtrain.capture.nonfinite import variable_values
from slowtrain.capture.nonfinite.variable_values import MAX_CARD_BYTES, MemoryBudget

GB = 10**9


def test_an_eighth_of_what_is_free() -> None:
    kept = MemoryBudget(lambda: 16 * GB)
    assert kept.holds(2 * GB)
    assert not kept.holds(2 * GB + 1)
    assert kept.refusal_reason(3 * GB) == "3000 MB, and up to 2000 MB are kept, an eighth of the memory that is free"


def test_what_is_kept_already_does_not_count_against_itself() -> None:
    assert not MemoryBudget(lambda: 13 * GB).holds(2 * GB)
    assert MemoryBudget(lambda: 13 * GB).holds(2 * GB, held_bytes=3 * GB)


def test_it_follows_the_memory_and_seldom_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    at, free, read = [0], [16 * GB], [0]

    def reading() -> int:
        read[0] += 1
        return free[0]

    monkeypatch.setattr(variable_values, "now", lambda: at[0])
    kept = MemoryBudget(reading)
    assert all(kept.holds(GB) for _ in range(100))
    assert read[0] == 1
    free[0] = 4 * GB
    at[0] = variable_values.READING_PERIOD_NS
    assert not kept.holds(GB)


def test_a_card_and_a_host_that_say_nothing_get_a_fixed_size() -> None:
    assert MemoryBudget(lambda: 16 * GB).holds(MAX_CARD_BYTES, on_card=True)
    assert not MemoryBudget(lambda: 16 * GB).holds(MAX_CARD_BYTES + 1, on_card=True)
    assert not MemoryBudget(lambda: None).holds(MAX_CARD_BYTES + 1)
