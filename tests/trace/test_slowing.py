"""How fast steps get longer, and what that means for what fills up meanwhile."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from slowtrain import diagnose
from slowtrain.causes.drift.growing_step import GrowingStep
from slowtrain.causes.memory.host_leak import HostLeak
from slowtrain.model import Category, Evidence
from slowtrain.script.locations import planned_steps
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift import step_growth
from slowtrain.trace.signals.memory_growth import MemorySlope

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

STEPS = 800


def growth_evidence(trace: Trace) -> Evidence | None:
    finding = GrowingStep().find(trace)
    return None if finding is None else GrowingStep().evidence(trace, finding)


def growth_cures(trace: Trace) -> list[str]:
    finding = GrowingStep().find(trace)
    return [] if finding is None else [cure.says for cure in GrowingStep().cures(trace, finding)]


def growing(python_ms: float, more_ms: float, leap_ms: float = 0.0) -> str:
    """A run whose own Python takes more in each step, and whose memory grows by a container of the script's.

    From the 40th step on it takes ``leap_ms`` more.
    """
    own = [round(python_ms + more_ms * i + leap_ms * (i >= 40)) for i in range(STEPS)]
    step = " ".join(str(i % 2 + 1) * (4 + ms) for i, ms in enumerate(own))
    python = " ".join("...." + "p" * ms for ms in own)
    return f"step {step}\npython {python}"


def test_memory_is_full_later_where_steps_get_slower() -> None:
    found = MemorySlope(per_step=1e6, low=1e6, high=1e6, total_bytes=1e9, steps=1000)
    assert found.hours(3.6e9, 1000.0) == pytest.approx(1.0)
    assert found.hours(3.6e9, 1000.0, 1.0) == pytest.approx(2.8)
    assert found.hours(None, 1000.0, 1.0) is None


def test_what_of_a_step_grows() -> None:
    trace = parse_drawing(growing(4.0, 0.05))
    assert step_growth.slower_ms_per_step(trace) == pytest.approx(0.05, rel=0.1)
    assert step_growth.category_growth_ms(trace, Category.PYTHON) == pytest.approx(0.05 * STEPS / 2, rel=0.15)
    assert step_growth.category_growth_ms(trace, Category.INPUT) == 0.0
    assert step_growth.slower_ms_per_step(parse_drawing(growing(4.0, 0.0))) == 0.0


def test_what_grows_is_held_against_the_first_steps_also_where_it_is_no_line() -> None:
    trace = parse_drawing(growing(4.0, 0.05, leap_ms=20.0))
    assert step_growth.category_growth_ms(trace, Category.PYTHON) == pytest.approx(0.05 * STEPS / 2 + 19, rel=0.05)


def kept(until_ms: int, free: int = 2_000_000_000_000, memory: int = 4_000_000) -> str:
    """Memory, and a list of the script's that keeps four megabytes in every fortieth millisecond."""
    every = f"every=40 last={until_ms}"
    held = '"path":"seen","kind":"list","element":"ndarray","element_bytes":1000000,"file":"train.py","named":"seen"'
    return (
        f"@grow memory anonymous from=600000000 by={memory} {every}\n@sample available_bytes={free}\n"
        f"@grow held seen from=4 by=4 {every} detail={{{held}}}"
    )


def test_a_growth_that_slows_the_run_comes_before_the_leak_that_it_is() -> None:
    even = diagnose.diagnose_trace(parse_drawing(f"{growing(4.0, 0.0)}\n{kept(6400)}"))
    slower = diagnose.diagnose_trace(parse_drawing(f"{growing(4.0, 0.05)}\n{kept(22_000)}"))
    assert [d.cause for d in even.diagnoses][:1] == ["memory/host-leak"]
    assert [d.cause for d in slower.diagnoses][:2] == ["drift/growing-step", "memory/host-leak"]


@pytest.mark.parametrize(
    ("free", "first"), [(100_000_000_000, "drift/growing-step"), (4_000_000_000, "memory/host-leak")]
)
def test_a_leak_that_will_fill_the_memory_today_comes_first_unless_steps_get_ten_times_as_long_before(
    free: int, first: str
) -> None:
    found = diagnose.diagnose_trace(parse_drawing(f"{growing(4.0, 0.05)}\n{kept(22_000, free)}")).diagnoses
    leak = next(d for d in found if d.cause == "memory/host-leak")
    assert leak.evidence.numbers["full_in_h"] < 24
    assert found[0].cause == first


def test_a_list_that_explains_a_sixth_of_what_memory_grew_by_is_a_leak_of_its_own() -> None:
    trace = parse_drawing(f"{growing(4.0, 0.0)}\n{kept(6400, memory=24_000_000)}")
    finding = HostLeak().find(trace)
    assert finding is not None
    assert "`seen` holds" in HostLeak().evidence(trace, finding).says
    assert finding.slope.per_step == pytest.approx(800_000, rel=0.1)  # the list's, not the memory's
    nothing = parse_drawing(
        f"{growing(4.0, 0.0)}\n{kept(6400, memory=24_000_000)}".replace("@grow held", "@grow other")
    )
    assert HostLeak().find(nothing) is None


def test_what_grew_beside_the_step_is_said() -> None:
    """The graph of a session, and what a device has in use; what stays as it was is not named."""
    end_ms = 24 * STEPS
    every = f"every=40 last={end_ms}"
    beside = (
        f'@grow held graph from=200 by=20 {every} detail={{"kind":"graph","element":"op"}}\n'
        f"@grow memory GPU:0 from=1000000000 by=4000000 {every}\n@grow memory GPU:1 from=1000000000 by=1000 {every}"
    )
    found = growth_evidence(parse_drawing(f"{growing(4.0, 0.05)}\n{beside}"))
    assert found is not None
    assert re.search(
        r"the memory in use on GPU:0 grew from 1\d\d\d to 2\d\d\d MB; the graph grew from .* ops$", found.says
    )
    assert "GPU:1" not in found.says


def test_what_several_causes_ask_is_made_once_for_each_trace() -> None:
    made: list[int] = []

    def steps(trace: Trace) -> int:
        made.append(len(trace.steps))
        return made[-1]

    trace = parse_drawing("step 1111 2222")
    assert trace.compute_once(steps) == trace.compute_once(steps) == len(trace.steps)
    longer = replace(trace, steps=parse_drawing("step 1111 2222\n@repeat 100").steps)
    assert longer.compute_once(steps) == 100
    assert made == [len(trace.steps), 100]


WAITS = """
    step    11111
    input   i....
    device  .kkkk
    @repeat 800
    @more input=0.02
"""


@pytest.mark.parametrize(("mb", "reads"), [(20.0, True), (0.002, False), (0.0, False)])
def test_input_that_comes_from_a_disk_in_the_end(mb: float, reads: bool) -> None:
    """From the middle of the run on the page cache is full, and so much a step is read from the disk."""
    trace = parse_drawing(WAITS)
    at = np.linspace(0, float(trace.steps.end_ms[-1]), 200)
    done = np.searchsorted(trace.steps.end_ms, at)
    trace = replace(trace, samples={"time_ms": at, "read_bytes": 1e6 * mb * np.maximum(done - 400.0, 0.0)})
    found = step_growth.find_step_growth(trace)
    assert found is not None
    assert found[1].kind == str(Category.INPUT)
    said = r"; a step read 0 B from a disk at first and (19|20)(\.\d)? MB at the end"
    assert bool(re.search(said, found[1].says)) is reads
    cures = growth_cures(trace)
    assert any("page cache" in says for says in cures) is reads


ALIKE = """
    step    11111111
    python  pp......
    device  ..kkkkkk
    @repeat 8000
    @more python=0.0003 device=0.0009
"""


def _alike(**figures: tuple[float, float]) -> Trace:
    """A run of which everything gets slower, by twice in the end, and figures of the machine that change."""
    trace = parse_drawing(ALIKE)
    at = np.linspace(0, float(trace.steps.end_ms[-1]), 400)
    columns = {key: np.linspace(*ends, 400) for key, ends in figures.items()}
    for column in columns.values():
        column[::3] = np.nan  # not read each time
    return replace(trace, samples={"time_ms": at, **columns})


@pytest.mark.parametrize(
    ("figures", "kind", "said"),
    [
        ({"cpu_mhz": (3600.0, 1500.0)}, "processor", r"; the processor's clock fell from 3\d\d\d to 1\d\d\d MHz"),
        (
            {"cpu_mhz": (3600.0, 3300.0)},
            "call",
            "; the calls of the training functions",
        ),  # 8 %, for a step of twice the time
        ({"cpu_mhz": (1500.0, 3600.0)}, "call", "; the calls of the training functions"),
        (
            {"heap_free_bytes": (1e7, 4e8), "heap_used_bytes": (4e8, 4e8)},
            "allocator",
            r"; 10% of malloc's heap was free but in pieces at first and 46% at the end \(338 MB\)",
        ),
        (
            {"heap_free_bytes": (1e6, 2e7), "heap_used_bytes": (4e6, 4e6)},
            "call",
            "; the calls of the training functions",
        ),
        ({}, "call", "; the calls of the training functions"),
    ],
)
def test_all_of_a_step_gets_slower_and_the_machine_tells_why(
    figures: dict[str, tuple[float, float]], kind: str, said: str
) -> None:
    trace = _alike(**figures)
    found = step_growth.find_step_growth(trace)
    assert found is not None
    assert found[1].kind == kind
    evidence = growth_evidence(trace)
    assert evidence is not None
    assert re.search(said, evidence.says)


GRAPH = """
    step    11111
    device  kkkkk
    @repeat 400
    @more device=0.02
    @grow held graph from=200 by=OPS every=40 last=3600 detail={"kind":"graph","element":"op","element_bytes":1000,
    & "at_least":true,"sites":[["train.py",31]]}
    @grow memory anonymous from=600000000 by=1500000 every=40 last=3600
"""


@pytest.mark.parametrize("ops", [100, 0])
def test_a_graph_that_gets_ops_in_each_turn(ops: int) -> None:
    """Each run of a session goes through all of it: no machine's mood, however short the run is."""
    trace = parse_drawing(GRAPH.replace("OPS", str(ops)))
    found, leak = growth_evidence(trace), HostLeak().find(trace)
    assert (found is not None) is (ops > 0)
    assert (leak is not None) is (ops > 0)
    if found is not None and leak is not None:
        leak_evidence = HostLeak().evidence(trace, leak)
        assert [p.line for p in (*found.where, *leak_evidence.where)] == [31, 31]
        assert re.search(r"; the graph grew from 1,\d\d\d to 7,\d\d\d ops$", found.says)
        assert "× op of at least 1 kB and grows by" in leak_evidence.says
        assert any("graph.finalize()" in says for says in growth_cures(trace))
        assert any("graph.finalize()" in p.says for p in HostLeak().cures(trace, leak))


@pytest.mark.parametrize("ops", [100, 0])
def test_a_graph_that_gets_ops_makes_steps_longer_however_unsteady_they_are(ops: int) -> None:
    """Halfway the machine takes half as long again for everything: a jump, and no line."""
    unsteady = GRAPH.replace("@more device=0.02", "@more device=0.002\n@more device=3 from=200")
    found = growth_evidence(parse_drawing(unsteady.replace("OPS", str(ops))))
    assert (found is not None) is (ops > 0)
    assert found is None or [p.line for p in found.where] == [31]


def test_what_an_allocator_holds_free_is_said() -> None:
    found = growth_evidence(_alike(heap_free_bytes=(2e7, 6e7), heap_used_bytes=(4e8, 4e8)))
    assert found is not None
    assert re.search(r"; the free memory that malloc keeps grew from 2\d to 5\d MB$", found.says)
    little = growth_evidence(_alike(heap_free_bytes=(1e6, 6e6), heap_used_bytes=(4e8, 4e8)))
    assert little is not None
    assert "malloc" not in little.says


def test_what_a_framework_says_of_its_pool_is_said() -> None:
    every = f"every=40 last={24 * STEPS}"
    trace = parse_drawing(f"{growing(4.0, 0.05)}\n@grow memory X from=1000000000 by=4000000 {every}")
    for what, words in (("peak ", "the peak memory in use on"), ("free ", "the free memory in the pool of")):
        names = tuple(replace(n, text=f"{what}GPU:0") if n.text == "X" else n for n in trace.names)
        found = growth_evidence(replace(trace, names=names))
        assert found is not None
        assert f"; {words} GPU:0 grew from 1" in found.says


HALFWAY = """
    step    11111
    python  p....
    device  .kkkk
    @repeat 400
    @steps block=100
    @more python=0.02
    @event loop name=fit start=0 end=3600 data={"epochs":EPOCHS,"nested":0}
"""


@pytest.mark.parametrize("each", ['"many"', "[100]", "-100", "1e400", "NaN"])
def test_an_epoch_of_no_such_number_of_steps_is_not_planned_with(each: str) -> None:
    """What a recording says is not taken for true: another's may say anything."""
    assert (
        planned_steps.find_planned_steps(parse_drawing(HALFWAY.replace("EPOCHS", f'20,"steps_per_epoch":{each}')))
        is None
    )
    assert (
        planned_steps.find_planned_steps(parse_drawing(HALFWAY.replace("EPOCHS", '20,"steps_per_epoch":100')))
        is not None
    )


@pytest.mark.parametrize(("epochs", "said"), [(20, True), (4, False)])
def test_when_a_fit_will_end_at_this_rate(epochs: int, said: bool) -> None:
    """After 4 of 20 epochs of 100 steps: 1,600 steps are left, which begin at 13 ms and grow by 0.02 ms each."""
    found = growth_evidence(parse_drawing(HALFWAY.replace("EPOCHS", str(epochs))))
    assert found is not None
    assert ("at this rate the rest takes" in found.says) is said
    assert ("at this rate as many steps again take" in found.says) is not said
    if said:
        assert found.numbers["left_ms"] == pytest.approx(1600 * (13 + 0.02 * 800), rel=0.05)
        assert found.numbers["left_without_ms"] == pytest.approx(1600 * 5, rel=0.05)
        assert "at this rate the rest takes 46 s, without the growth 8.1 s" in found.says


LOOPED = """
    step    11111
    python  p....
    device  .kkkk
    @repeat 400
    @steps source=gradient line=3 block=100
    @more python=0.02
    @fact sources={"train.py":"TEXT"}
"""
# The loop over the data set begins before steps 0, 100, 200 and 300.
PASSES = "\n".join(
    f"@event iterator name=made start={5 * n + 0.01 * n * (n - 1) - 0.5} "
    f'data={{"number":{number},"site":["train.py",2]}}'
    for number, n in enumerate((0, 100, 200, 300), 1)
)
EPOCHS = r"for epoch in range(20):\n for x in data:\n  tape.gradient(x)\n"


def at_this_rate(text: str, more: str = "") -> tuple[str, float]:
    found = growth_evidence(parse_drawing(LOOPED.replace("TEXT", text) + more))
    assert found is not None
    said = re.search(r"; at this rate (.*?), without", found.says)
    assert said is not None
    return said[1], found.numbers["left_ms"]


def test_when_a_loop_written_by_hand_will_end_at_this_rate() -> None:
    said, left_ms = at_this_rate(r"# a loop\nfor i in range(2000):\n tape.gradient(i)\n")
    assert said == "the rest of 2,000 steps by the loop train.py:2 takes 46 s"
    assert left_ms == pytest.approx(1600 * (13 + 0.02 * 800), rel=0.05)
    said, _ = at_this_rate(r"for i in range(2000):\n if i: break\n tape.gradient(i)\n")
    assert said == "the rest of at most 2,000 steps by the loop train.py:1 takes at most 46 s"


def test_when_epochs_written_by_hand_will_end_at_this_rate() -> None:
    """The steps of an epoch are counted in the recording."""
    said, left_ms = at_this_rate(EPOCHS, PASSES)
    assert said == "the rest of 2,000 steps (20 turns of the loop train.py:1, 100 counted in each) takes 46 s"
    assert left_ms == pytest.approx(1600 * (13 + 0.02 * 800), rel=0.05)


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (EPOCHS, ""),  # no pass was seen
        (EPOCHS, "\n".join(PASSES.splitlines()[:1])),  # none has ended
        (EPOCHS, "\n".join([*PASSES.splitlines()[:1], *PASSES.splitlines()[2:]])),  # one is missing
        (EPOCHS.replace("20", "3"), PASSES),  # the text was not understood
        (EPOCHS, PASSES.replace("start=598.5", "start=500")),  # passes of several lengths
        (r"\n\nfor i in range(100): tape.gradient(i)\n", ""),  # more have been taken
        (r"# no call\n#\nfor i in range(9000): pass\n", ""),
        (rf"if {'a.' * 1500}b:\n for i in range(9000):\n  tape.gradient(i)\n", ""),  # nested too deeply
        (r"\n\nfor i in range(9000): tape.gradient(i)\n", '\n@fact launch={"exit_code":0}'),  # it ended well
    ],
)
def test_as_many_steps_again_where_nobody_says_how_many_there_will_be(text: str, more: str) -> None:
    said, _ = at_this_rate(text, more)
    assert said.startswith("as many steps again take ")


def test_the_text_on_disk_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("\n\nfor i in range(9000): tape.gradient(i)\n")
    drawing = parse_drawing(LOOPED.replace("TEXT", "").replace('"train.py":""', ""))
    assert planned_steps.find_planned_steps(drawing) is None
    assert (
        planned_steps.find_planned_steps(
            parse_drawing(LOOPED.replace("TEXT", r"\n\nfor i in range(9000): tape.gradient(i)\n"))
        )
        is not None
    )


@pytest.mark.parametrize(
    ("missing", "known"), [((150, 180), True), ((195, 205), True), ((50, 350), False), ((0, 150), True)]
)
def test_steps_of_an_epoch_of_a_thinned_run(missing: tuple[int, int], known: bool) -> None:
    """Counted between two beginnings of which the steps on both sides were kept."""
    whole = parse_drawing(LOOPED.replace("TEXT", EPOCHS) + PASSES)
    kept = np.r_[0 : missing[0], missing[1] : len(whole.steps)]
    columns = {f: getattr(whole.steps, f)[kept] for f in ("start_ms", "end_ms", "steady", "windowed", "block", "size")}
    found = planned_steps.find_planned_steps(replace(whole, steps=replace(whole.steps, numbers=kept, **columns)))
    assert (found is not None and found.each == 100) is known
