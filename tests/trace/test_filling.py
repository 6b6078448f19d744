"""What making a batch's elements takes is told by how long the shuffle buffer took to fill."""

from __future__ import annotations

import pytest

from slowtrain.trace.signals.shuffle_fill import find_shuffle_fill

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

EPOCH = (
    "step    1111111111111111111111112345678\ninput   iiiiiiiiiiiiiiiiiiiiiiii.......\ndevice  " + "." * 24 + "kkkkkkk"
)
PIPE = """
@steps block=8
@pipeline Slices ms=0.1 elements=64 > ParallelMapV2 ms=40 elements=64 parallelism=2 line=12
> Shuffle ms=0.1 elements=16 line=13 detail={"buffer_size":%d,"cardinality":%d} > Batch ms=0.1 line=14 > Prefetch
"""


@pytest.mark.parametrize(("held", "size"), [(64, 1000), (1000, 64)])
def test_a_batch_takes_as_long_as_its_share_of_the_buffer(held: int, size: int) -> None:
    found = find_shuffle_fill(parse_drawing(EPOCH + PIPE % (held, size)))
    assert found is not None
    made = found.each_ms / 64 * 16
    rest = 7 / 8  # of a mean step, which waits for nothing
    assert found.overlapped_ms == pytest.approx(made - rest, rel=0.05)


def test_elements_made_beside_the_step_share_its_cores() -> None:
    alone = find_shuffle_fill(parse_drawing(EPOCH + PIPE % (1000, 1000)))
    busy = find_shuffle_fill(parse_drawing(EPOCH + PIPE % (1000, 1000) + "@fact step_cpu_ms=1.6 usable_cores=2"))
    assert alone is not None
    assert busy is not None
    assert busy.overlapped_ms > alone.overlapped_ms


def test_a_wait_far_longer_than_the_buffer_takes_to_fill_is_no_filling() -> None:
    cheap = PIPE.replace("ms=40", "ms=0.4")
    assert find_shuffle_fill(parse_drawing(EPOCH + cheap % (64, 1000))) is None
