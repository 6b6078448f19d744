"""From a forecast to the batch that was seen to fit, with runs that are told instead of made."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.errors import InputError
from slowtrain.memory.allocation_record import AllocationRecord
from slowtrain.memory.peak_forecast import MemoryPool
from slowtrain.verify.batch_sizes import memory_need
from slowtrain.verify.batch_sizes.batch_probe import RecordedProbe
from slowtrain.verify.batch_sizes.memory_need import ALONE
from slowtrain.verify.measurement.probe_process import Probe

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

POOL = MemoryPool(256 << 20, growth=True)


def recorded(allocator: str, **more: Any) -> RecordedProbe:
    return RecordedProbe(64, allocator, AllocationRecord(allocator, (), 0, 0), {}, 10.0, **more)


@dataclass
class World:
    """``fits`` says what a run at a batch does; ``left`` is for how many runs there is time."""

    fits: Callable[[int], bool]
    left: int = 100
    ran: list[int] = field(default_factory=list)
    under: list[str] = field(default_factory=list)

    def tried(self, monkeypatch: pytest.MonkeyPatch, forecast: int) -> memory_need.TrialAnswer:
        def fits(
            _sizing: object, _pool: MemoryPool, batch: int, runs: memory_need.BatchRuns, circumstance: str = ALONE
        ) -> bool:
            self.ran.append(batch)
            self.under.append(circumstance)
            runs.append((batch, self.fits(batch)))
            return runs[-1][1]

        monkeypatch.setattr(memory_need, "_fits_limit", fits)
        monkeypatch.setattr(memory_need, "can_try_limit", lambda *_: True)
        monkeypatch.setattr(memory_need, "has_time_for", lambda *_: len(self.ran) < self.left)
        return memory_need.try_batches(None, POOL, forecast)  # type: ignore[arg-type]


@given(st.integers(1, 5000), st.floats(1.0, 3.0), st.integers(0, 60))
def test_the_answer_is_the_forecast_or_was_seen_to_fit(forecast: int, reach: float, left: int) -> None:
    edge = int(forecast * reach)
    with pytest.MonkeyPatch.context() as patch:
        world = World(lambda batch: batch <= edge, left)
        found = world.tried(patch, forecast)
    failed = min((b for b, fitted in found.runs if not fitted), default=None)
    least = forecast if failed is None else min(forecast, int(memory_need.MAX_SHARE_OF_FAILED * failed))
    assert int(memory_need.ANSWER_SHARE * least) <= found.batch <= edge
    assert found.batch <= max(forecast, *(b for b, fitted in found.runs if fitted), 0)
    assert len(world.ran) <= left
    if left == 60:
        assert found.batch >= 0.94 * edge - 4


@given(st.integers(20, 5000), st.integers(0, 2**32))
def test_an_answer_and_what_is_above_it_fitted_in_every_circumstance(forecast: int, seed: int) -> None:
    """From nine tenths of the forecast to a tenth above it, each run is a throw."""
    chance = random.Random(seed)
    fitted: list[bool] = []

    def fits(batch: int) -> bool:
        fitted.append(chance.random() < (1.1 * forecast - batch) / (0.2 * forecast))
        return fitted[-1]

    with pytest.MonkeyPatch.context() as patch:
        world = World(fits, 1000)
        found = world.tried(patch, forecast)
    asked = len(memory_need.ALL_CIRCUMSTANCES) * (1 + memory_need.CIRCUMSTANCE_ROUNDS)
    assert fitted[-asked:] == [True] * asked
    assert tuple(world.under[-asked:]) == memory_need.ALL_CIRCUMSTANCES * (1 + memory_need.CIRCUMSTANCE_ROUNDS)
    above, answer = set(world.ran[-asked:][:3]), set(world.ran[-asked:][3:])
    assert answer == {found.batch}
    assert len(above) == 1
    assert found.batch <= memory_need.ANSWER_SHARE * min(above)


def test_what_fits_once_and_not_just_below_is_not_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    found = World(lambda batch: batch <= 110 or batch == 124).tried(monkeypatch, 100)
    assert 102 <= found.batch <= 110


def test_the_answer_keeps_clear_of_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = World(lambda batch: batch <= 396).tried(monkeypatch, 396)
    failed = min(b for b, fitted in found.runs if not fitted)
    assert 397 <= failed <= 401
    assert found.batch == int(memory_need.ANSWER_SHARE * 396) < memory_need.MAX_SHARE_OF_FAILED * failed


def test_a_forecast_that_does_not_fit_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    found = World(lambda batch: batch <= 95).tried(monkeypatch, 100)
    assert 90 <= found.batch <= 95
    assert dict(found.runs)[100] is False


def test_a_forecast_that_fits_now_and_then_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 fits in two circumstances and not in the third."""
    throws = iter([True, True, False])
    found = World(lambda batch: batch < 100 or (batch == 100 and next(throws))).tried(monkeypatch, 100)
    assert [fitted for batch, fitted in found.runs if batch == 100] == [False, True, True]
    assert found.batch == int(memory_need.ANSWER_SHARE * 98)


def test_where_the_data_has_no_more_what_was_tried_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    def fits(batch: int) -> bool:
        if batch > 130:
            raise InputError("no step took so many samples")
        return True

    assert World(fits).tried(monkeypatch, 100).batch >= 105


def test_nothing_is_tried_that_a_container_has_no_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The computer may have plenty: the kernel ends what takes more than its container may have."""
    sizing: Any = SimpleNamespace(recorded=[recorded("bfc_cpu_allocator_for_gpu")])
    monkeypatch.setattr("slowtrain.verify.batch_sizes.batch_probe.free_bytes", lambda: POOL.limit_bytes)
    assert not memory_need.can_try_limit(sizing, POOL)
    monkeypatch.setattr("slowtrain.verify.batch_sizes.batch_probe.free_bytes", lambda: 2 * POOL.limit_bytes)
    assert memory_need.can_try_limit(sizing, POOL)


def test_nothing_is_tried_on_a_gpu() -> None:
    sizing: Any = SimpleNamespace(recorded=[recorded("GPU_0_bfc", limit_bytes=64 << 30, card_bytes=80 << 30)])
    assert not memory_need.can_try_limit(sizing, POOL)


def test_without_a_forecast_nothing_is_tried() -> None:
    assert memory_need.try_batches(None, POOL, 0) == memory_need.TrialAnswer(0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stopped", "facts", "fits"),
    [(True, "@fact stopped_ns=5", True), (False, "", True), (True, "", False)],
    ids=["its steps were taken", "it ended by itself", "its time ended"],
)
def test_a_run_that_had_to_be_ended_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stopped: bool, facts: str, fits: bool
) -> None:
    trace = parse_drawing(f"step 1111111111\ndevice kkkkkkkkkk\n@steps source=fit size=64\n{facts}")
    monkeypatch.setattr(memory_need, "probe_trace", lambda *_: trace)
    probe = Probe(tmp_path, 1.0, None, 30.0, stopped, 1.0)
    sizing: Any = SimpleNamespace(
        run=lambda *_, **__: probe, bench=SimpleNamespace(script=SimpleNamespace(target="a.py"))
    )
    assert memory_need._fits_limit(sizing, POOL, 64, []) is fits
