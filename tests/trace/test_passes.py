"""Of very many iterators some are read, and speak for all."""

from __future__ import annotations

from slowtrain.columns.input_pipeline import Pipeline
from slowtrain.trace.loading import recorded_pipelines


def test_few_are_all_read() -> None:
    readings = {3: ["a", "b"], 1: ["c"]}
    found, times = recorded_pipelines.choose_readings(readings, {1: 7, 3: 7})
    assert found == readings
    assert times == {7: 1.0}


def test_of_many_some_from_everywhere() -> None:
    readings = {i: list(range(1000)) for i in range(10_000)} | {10_000: [5]}
    found, times = recorded_pipelines.choose_readings(readings, dict.fromkeys(range(10_000), 1) | {10_000: 2})
    mine = [i for i in found if i < 10_000]
    assert len(mine) == recorded_pipelines.MAX_ITERATORS
    assert (mine[0], mine[-1]) == (0, 9999)
    assert times[1] * len(mine) == 10_000
    assert times[2] == 1.0
    assert len(found[0]) <= recorded_pipelines.MAX_READINGS
    assert (
        found[0][-recorded_pipelines.MIN_NEWEST_READINGS :]
        == list(range(1000))[-recorded_pipelines.MIN_NEWEST_READINGS :]
    )


def test_batches_and_passes_are_those_of_all() -> None:
    one = Pipeline((), batches=30, epochs=10)
    assert recorded_pipelines.scale_to_all_iterators(one, 1.0) is one
    assert (
        recorded_pipelines.scale_to_all_iterators(one, 50.0).batches,
        recorded_pipelines.scale_to_all_iterators(one, 50.0).epochs,
    ) == (1500, 500)
