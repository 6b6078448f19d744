"""Stalls: which belong together, and how often they come."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from slowtrain import diagnose
from slowtrain.causes.drift.stalls import Stalls
from slowtrain.columns.arrays import Floats
from slowtrain.columns.spans import Event
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import stalls

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

DUMPED, PASS = 60, 128  # steps from one file to the next, and from one pass over the data to the next
LOOP = """
    step    11111
    input   n....
    python  .p...
    device  ..kkk
    @repeat 3200
    @steps source=function
    @more python=60 every=60
    @more python=40 every=128
    @span next next start=0 end=1 line=25 times=100 every=5
"""


def loop(line: int = 25) -> Trace:
    """Each 60th step writes a file; each 128th is followed by a new pass, whose data set is made in ``line``.

    The script was met in one of three of each, as samples meet short stalls.
    """
    bare = parse_drawing(LOOP)
    steps = bare.steps
    number = np.arange(len(steps)) + 1
    made = steps.start_ms[number % PASS == 0]
    dumps = steps.start_ms[(number % DUMPED == 0) & (number % PASS != 0)]
    rows = [f"@span stack write start={at + 25} end={at + 25} line=32" for at in dumps[::3]]
    rows += [f"@span stack iter start={at + 25} end={at + 25} line={line}" for at in made[::3]]
    found = parse_drawing(LOOP + "\n".join(rows))
    return replace(found, events=tuple(Event("iterator", "made", at + 40, at + 40, {}) for at in made))


def test_the_start_of_a_pass_does_not_hide_the_period_of_what_the_script_does() -> None:
    found = stalls.find_stalls(loop())
    assert [(s.kind, s.period) for s in found] == [("python", DUMPED), ("epoch", PASS)]
    assert [place.line for place in found[0].where] == [32]


def test_what_the_script_does_between_two_passes_is_its_own() -> None:
    """A checkpoint after each pass, in a line of its own."""
    found = stalls.find_stalls(loop(line=40))
    assert [(s.kind, s.period, s.where[0].line) for s in found] == [("python", DUMPED, 32), ("python", PASS, 40)]


def test_a_pause_that_ends_a_stretch_of_steps_is_found() -> None:
    """The last step in front of a long pause is the edge of its stretch, and steady no more."""
    bare = parse_drawing("step 11111\npython .p...\ndevice ..kkk\n@repeat 360\n@steps source=function\n")
    steps, number = bare.steps, np.arange(360)
    shift = 450.0 * (number // 30)
    last = (number + 1) % 30 == 0
    parted = replace(
        steps,
        start_ms=steps.start_ms + shift,
        end_ms=steps.end_ms + shift,
        block=number // 30,
        steady=steps.steady & ~last,
        edge=last,
    )
    found = stalls.find_stalls(replace(bare, steps=parted))
    assert [(s.kind, s.period, len(s.each)) for s in found] == [("python", 30, 11)]


OFTEN = """
    step    11111
    device  kkkkk
    @repeat 1200
    @more KIND=300 every=100
    @fact usable_cores=2 machine={"cpu":{"logical_cores":2}}
"""
WORDS = {"python": "Python of the script", "input": "waiting for input"}


def standing(kind: str, disk: float = 0.0, others: float = 0.0) -> Trace:
    """Each hundredth step stands for 300 ms, in which the cores wait for a disk, or others take processors."""
    trace = parse_drawing(OFTEN.replace("KIND", kind))
    at = np.arange(50.0, float(trace.steps.end_ms[-1]), 50.0)
    step = np.minimum(np.searchsorted(trace.steps.end_ms, at), len(trace.steps) - 1)
    inside: Floats = np.asarray(trace.steps.ms[step] > 100, dtype=float)
    samples = {
        "time_ms": at,
        "iowait_share": 0.01 + disk * inside,
        "cpu_mean_share": 0.3 + others * inside / 2,
        "process_cpu_seconds": 0.5 * at / 1e3,
    }
    return replace(trace, samples=samples)


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({}, ""),
        ({"disk": 0.4}, "; meanwhile the cores waited for a disk 2"),
        ({"disk": 0.05}, ""),
        ({"others": 1.2}, "; meanwhile other processes took 0."),
    ],
)
def test_what_the_machine_did_in_them_is_said_beside_what_the_script_did(
    kind: str, figures: dict[str, float], said: str
) -> None:
    (found,) = stalls.find_stalls(standing(kind, **figures))
    assert found.says.startswith(WORDS[kind] + said)
    assert ("meanwhile" in found.says) is bool(said)


def test_long_steps_that_have_a_cause_of_their_own_are_named_beside_the_others() -> None:
    text = OFTEN.replace("KIND", "input") + "@more gc=200 every=130\n"
    bare = parse_drawing(text)
    at = bare.steps.start_ms[(np.arange(1200) + 1) % 130 == 0]
    full = "\n".join(f"@span gc full start={start} end={start + 200}" for start in at)
    found = {d.cause: d.evidence.says for d in diagnose.diagnose_trace(parse_drawing(f"{text}{full}")).diagnoses}
    assert "; also 9 of garbage collection (16%)" in found["drift/stalls"]


@pytest.mark.parametrize(("busy", "told"), [(0.4, True), (0.98, False)])
def test_where_others_want_all_processors_the_script_is_not_blamed_for_what_comes_irregularly(
    busy: float, told: bool
) -> None:
    """Six seconds of steps: a thread that sleeps, and is not woken up in time, stands at whatever line it is."""
    text = OFTEN.replace("@more KIND=300 every=100", "@more python=300 every=101\n@more python=300 every=230")
    trace = parse_drawing(text + "@more python=300 every=173\n")
    at = np.arange(50.0, float(trace.steps.end_ms[-1]), 50.0)
    samples = {"time_ms": at, "cpu_mean_share": np.full(len(at), busy), "process_cpu_seconds": 0.5 * at / 1e3}
    trace = replace(trace, samples=samples)
    assert [(s.kind, s.period) for s in stalls.find_stalls(trace)] == [("python", None)]
    assert (Stalls().find(trace) is not None) is told


@pytest.mark.parametrize(
    ("busy", "said"),
    [
        (0.4, "nothing that was measured shows what ran in them; also 12 of Python of the script"),
        (0.98, "Python of the script; also 47 of another kind"),
    ],
)
def test_where_others_want_all_processors_what_the_script_does_itself_comes_first(busy: float, said: str) -> None:
    """In more than a minute of steps, so that what nothing explains counts, too."""
    text = OFTEN.replace("KIND=300 every=100", "python=300 every=1000").replace("1200", "12000")
    text += "@more device=300 every=470\n@more device=300 every=530\n"
    trace = parse_drawing(text)
    at = np.arange(50.0, float(trace.steps.end_ms[-1]), 50.0)
    samples = {"time_ms": at, "cpu_mean_share": np.full(len(at), busy), "process_cpu_seconds": 0.5 * at / 1e3}
    trace, cause = replace(trace, samples=samples), Stalls()
    finding = cause.find(trace)
    assert finding is not None
    assert said in cause.evidence(trace, finding).says


@pytest.mark.parametrize(
    ("steps", "period"),
    [
        ([8, 11, 12, 50, 100, 101, 102], None),  # a neighbour on the machine: any number is near a multiple of two
        ([3, 5, 9, 300, 302, 304], None),  # nor every second step, where nearly all of them are missing
        ([60, 120, 180, 300, 360], 60),  # one of them was missed
        ([7, 14, 21, 28, 42], 7),
        ([100, 201, 299, 402], 101),  # about the same
    ],
)
def test_stalls_that_come_with_a_period(steps: list[int], period: float | None) -> None:
    assert stalls._stall_period(np.array(steps, dtype=float)) == period
