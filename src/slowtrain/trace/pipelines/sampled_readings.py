"""Selects the readings of counters that represent a run with very many iterators."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from slowtrain.columns.input_pipeline import Pipeline

MAX_ITERATORS = 200  # of one data set; ten thousand epochs create as many, and each takes a millisecond to read
MAX_READINGS = 100  # of one iterator, including the newest
MIN_NEWEST_READINGS = 5

T = TypeVar("T")


def choose_readings(
    readings: Mapping[int, Sequence[T]], number_of: Mapping[int, Hashable]
) -> tuple[dict[int, list[T]], dict[Hashable, float]]:
    """Return iterators from the whole run, each with some of its readings.

    Also returns for each data set the number of its iterators divided by the number of those chosen.
    """
    groups: dict[Hashable, list[int]] = {}
    for iterator in sorted(readings):
        groups.setdefault(number_of.get(iterator), []).append(iterator)
    found: dict[int, list[T]] = {}
    times: dict[Hashable, float] = {}
    for number, iterators in groups.items():
        mine = _evenly_chosen(iterators, MAX_ITERATORS)
        times[number] = len(iterators) / len(mine)
        for iterator in mine:
            rows = readings[iterator]
            if len(rows) > MAX_READINGS:
                rows = [
                    *_evenly_chosen(rows[:-MIN_NEWEST_READINGS], MAX_READINGS - MIN_NEWEST_READINGS),
                    *rows[-MIN_NEWEST_READINGS:],
                ]
            found[iterator] = list(rows)
    return found, times


def _evenly_chosen(rows: Sequence[T], most: int) -> list[T]:
    if len(rows) <= most:
        return list(rows)
    return [rows[i] for i in np.unique(np.linspace(0, len(rows) - 1, most).astype(int))]


def scale_to_all_iterators(one: Pipeline, times: float) -> Pipeline:
    """Scale a pipeline's batches and passes to all its iterators, if only some were read."""
    if times == 1.0:
        return one
    return replace(one, batches=round(one.batches * times), epochs=round(one.epochs * times))
