"""Steps that are fed by hand: which lines make a batch, and which only hand it over in another type."""

from __future__ import annotations

import pytest

from slowtrain.script.locations.recorded_sources import handmade_input, handmade_input_places, only_converts
from slowtrain.trace import Trace

from ...drawn_trace import parse_drawing  # noqa: TID252  tests are no package

LOOP = """
step    1111111111
python  ppppppp...
device  .......kkk
@steps source=train_step line={last}
@fact cpu_ms_per_step=10
@fact sources={{"train.py":"{text}"}}
{lines}
@span function train_step start=7 end=10 line={last} times=40 every=10
"""


def looped(text: str, **visits: int) -> Trace:
    lines = "\n".join(f"@line {number[1:]} ms={1 + times / 100} visits={times}" for number, times in visits.items())
    return parse_drawing(LOOP.format(text=text.replace("\n", "\\n"), lines=lines, last=text.count("\n")))


@pytest.mark.parametrize(
    ("text", "converts"),
    [
        ("for i in r:\n train_step(graph.astype('f4'), rows.astype('f4'))\n", True),
        ("for i in r:\n train_step(np.asarray(graph, 'f4'), tf.constant(rows))\n", True),
        ("for i in r:\n train_step(graph[rng.permutation(n)].astype('f4'))\n", False),
        ("for i in r:\n train_step(graph[i])\n", False),
    ],
)
def test_arrays_in_another_type_are_no_batch_that_is_made(text: str, converts: bool) -> None:
    trace = looped(text, l2=800)
    hand = handmade_input(trace)
    assert hand is not None
    assert only_converts(trace, hand) is converts


def test_the_loops_around_lines_that_make_a_batch_make_it_too() -> None:
    trace = looped("for i in r:\n a = []\n for p in b[i]:\n  a.append(f(p))\n train_step(a)\n", l3=900, l4=900, l5=1)
    assert {place.line for place in handmade_input_places(trace)} == {1, 3, 4}
