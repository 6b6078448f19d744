"""How often a script writes checkpoints, and how long it takes: as timed, or as far as samples tell."""

from __future__ import annotations

import pytest

from slowtrain.model import Place
from slowtrain.trace.signals.host import checkpoint_time

from ..drawn_trace import DRAWN_FILE, parse_drawing  # noqa: TID252  tests are no package

LOOP = r"""
    step     1111111111
    device   kkkkkkkkkk
    @repeat 400
    @fact source={"train.py":"for i in range(400):\n    step()\n    manager.save()\n    np.savez('x', x)\n    fit()\n"}
    @span stack step start=5 end=5 line=2 times=400 every=10
"""


def test_calls_that_were_timed_all_count() -> None:
    """Samples met three of the forty; what a manager calls in its turn is no call of its own."""
    found = checkpoint_time.find_checkpoints(
        parse_drawing(
            LOOP
            + """
    @span save CheckpointManager.save start=7 end=10 line=3 times=40 every=100
    @span save Checkpoint.write start=8 end=9 line=3 times=40 every=100
    @span save save_weights start=3 end=4 line=5 times=40 every=100
    @span stack save start=8 end=8 line=3 times=3 every=1000
    """
        )
    )
    assert found is not None
    assert (found.passes, found.places) == (40, (Place(DRAWN_FILE, 3),))
    assert found.ms == pytest.approx(120)


def test_of_others_the_samples_tell() -> None:
    found = checkpoint_time.find_checkpoints(
        parse_drawing(LOOP + "@span stack save start=8 end=8 line=4 times=30 every=100")
    )
    assert found is not None
    assert (found.passes, found.places) == (30, (Place(DRAWN_FILE, 4),))
    assert found.ms == pytest.approx(90)


def test_both_kinds_add_up() -> None:
    rows = (
        "@span save CheckpointManager.save start=7 end=9 line=3 times=40 every=100\n"
        "@span stack save start=8 end=8 line=4 times=30 every=100"
    )
    found = checkpoint_time.find_checkpoints(parse_drawing(LOOP + rows))
    assert found is not None
    assert (found.passes, found.places) == (70, (Place(DRAWN_FILE, 4), Place(DRAWN_FILE, 3)))
    assert found.ms == pytest.approx(80 + 90)


def test_a_script_that_saves_nothing() -> None:
    assert checkpoint_time.find_checkpoints(parse_drawing(LOOP)) is None
