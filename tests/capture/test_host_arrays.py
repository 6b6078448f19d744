"""Arrays that Python holds for a data set, found without running anything of the script's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from slowtrain.capture.tensorflow.dataset_recipe import referenced_arrays

TABLE = np.zeros((300, 2))


class Sky:
    def __init__(self) -> None:
        self.tracks, self.unused = np.zeros((40, 3)), np.zeros((7, 3))
        self.looked_at = 0

    @property
    def counted(self) -> Any:
        self.looked_at += 1
        return self.tracks

    def nights(self) -> Iterator[Any]:
        yield self.counted if self.looked_at else self.tracks


def plain() -> Iterator[Any]:
    yield from TABLE


def test_a_generator_names_arrays_of_its_module() -> None:
    assert (
        referenced_arrays(plain)["TABLE"] == referenced_arrays(plain())["TABLE"] == {"length": 300, "bytes": 300 * 16}
    )


def test_of_a_method_those_of_its_object_that_its_code_names() -> None:
    """As a generator that was begun, and as the method itself; a property of the script's is not asked."""
    sky = Sky()
    for given in (sky.nights(), sky.nights):
        assert referenced_arrays(given) == {"tracks": {"length": 40, "bytes": 40 * 24}}
    assert sky.looked_at == 0
