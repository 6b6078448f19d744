"""What of a step goes into making data sets and iterators, and what is waiting for their elements."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from slowtrain.causes.input.rebuilt_pipeline import RebuiltPipeline, RebuiltPipelineFinding
from slowtrain.checkup import headline, verdicts
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Effect, VerdictKind
from slowtrain.trace import Trace

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

CAUSE = RebuiltPipeline()
EACH = CAUSE.fires[0]


def anew(trace: Trace) -> Trace:
    """The same with a data set of its own for each iterator."""
    made = [replace(e, data={**e.data, "pipeline": i}) for i, e in enumerate(trace.events_of("iterator"))]
    return replace(trace, events=(*(e for e in trace.events if e.lane != "iterator"), *made))


def found(trace: Trace) -> RebuiltPipelineFinding:
    finding = CAUSE.find(trace)
    assert finding is not None
    return finding


def test_what_has_to_be_done_depends_on_whether_the_data_set_is_new_as_well() -> None:
    same, new = parse_drawing(EACH), anew(parse_drawing(EACH))
    assert CAUSE.evidence(same, found(same)).says.startswith(
        "an iterator over the same data set is made in each step: 6 of its 10 ms, 3 of"
    )
    assert CAUSE.evidence(new, found(new)).says.startswith(
        "a data set and an iterator over it are made in each step: 6 of its 10 ms, 3 of"
    )
    says = [next(iter(CAUSE.cures(t, found(t)))).says for t in (same, new)]
    assert "before the loop: it = iter(ds.repeat())" in says[0]
    assert "give the step the arrays" in says[1]


def test_waiting_for_elements_is_no_part_of_it() -> None:
    """The line takes seven ms, one of which the step waits for its batch."""
    numbers = found(parse_drawing(EACH))
    assert numbers.making_ms == pytest.approx(3)
    assert numbers.lines_ms == pytest.approx(3)
    longer = parse_drawing(EACH.replace("start=3 end=4", "start=3 end=6"))
    assert found(longer).lines_ms == pytest.approx(1)


def test_of_new_data_sets_that_hand_arrays_on_nothing_is_left_to_wait_for() -> None:
    """Of what a function makes the wait would stay, wherever it is made."""

    def waiting(nodes: str, trace: Callable[[Trace], Trace] = anew) -> float:
        return found(trace(parse_drawing(f"{EACH}\n        @pipeline {nodes}"))).waiting_ms

    handed = "Slices ms=0.1 line=7 > Batch ms=0.1 line=7"
    assert waiting(handed) == pytest.approx(1)
    assert waiting(handed.replace("> Batch", "> Map ms=0.5 line=7 > Batch")) == 0
    assert waiting(handed, lambda trace: trace) == 0  # the data set stays, and waits for its elements as before
    assert found(anew(parse_drawing(EACH))).waiting_ms == 0  # nobody knows what it is made of


@pytest.mark.parametrize(("batches", "edited"), [(1, True), (2, False)])
def test_a_data_set_of_one_batch_becomes_the_batch(batches: int, edited: bool) -> None:
    text = "import tensorflow as tf\n" * 7 + "for a in tf.data.Dataset.from_tensors((x, y)):\n    step(a)\n"
    detail = f'{{"element":[{{}},{{}}],"cardinality":{batches}}}'
    trace = anew(parse_drawing(f"{EACH}\n        @pipeline Slices ms=0.1 line=8 detail={detail}"))
    trace = replace(trace, facts={**trace.facts, "sources": {"train.py": text}})
    cure = next(iter(CAUSE.cures(trace, found(trace))))
    assert cure.effect is Effect.EXACT
    assert [e.text for e in cure.edits] == ["[(tf.convert_to_tensor(x), tf.convert_to_tensor(y))]"] * edited


def test_a_line_that_takes_the_step_as_well_counts_by_the_iterator_alone() -> None:
    numbers = found(parse_drawing(EACH.replace("line=8", "line=9").replace('"train.py",8', '"train.py",9')))
    assert numbers.lines_ms == 0
    assert numbers.making_ms == pytest.approx(3)


def test_lines_that_build_what_is_gone_through_count() -> None:
    """A line of the loop that no step waits in is the script's own, unless a data set is made there."""
    drawing = EACH.replace("@line 8 ms=7", "@line 7 ms=3\n        @line 8 ms=4")
    plain = found(parse_drawing(drawing)).lines_ms
    built = found(parse_drawing(f"{drawing}\n        @pipeline Slices ms=0.1 line=7 > Batch ms=0.1 line=7")).lines_ms
    assert plain == 0
    assert built == pytest.approx(3)


def test_the_headline_does_not_call_it_waiting() -> None:
    trace = anew(parse_drawing(EACH))
    findings = diagnose_trace(trace)
    assert findings.diagnoses[0].cause == "input/rebuilt-pipeline"
    kind = verdicts.run_verdict(trace, findings)
    assert kind is VerdictKind.INPUT
    assert "4 ms of it creating iterators and waiting for input; curing input/rebuilt-" in headline.headline_for(
        trace, findings, kind
    )
    waits = parse_drawing(
        "step 1111111111\ninput iiiiiiii..\ndevice ........kk\n@span iterator made start=0 end=3 times=1"
    )
    assert "8 ms of it waiting for input" in headline.headline_for(waits, diagnose_trace(waits), VerdictKind.INPUT)


def test_iterators_that_other_threads_make_are_not_the_steps() -> None:
    trace = parse_drawing(EACH)
    spans = trace.lane("iterator")
    elsewhere = replace(trace, lanes={**trace.lanes, "iterator": replace(spans, thread=spans.thread + 1)})
    assert CAUSE.find(elsewhere) is None
