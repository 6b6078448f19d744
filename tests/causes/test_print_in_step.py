"""host/print-in-step: which lines print, and what of that is priced."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from slowtrain.causes import cause_by_id
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Category
from slowtrain.whatif import Drop

from ..drawn_trace import DRAWN_FILE, parse_drawing  # noqa: TID252  tests are no package

CAUSE = cause_by_id("host/print-in-step")
STEP = """
step     1111111111
python   ......pppp
device   kkkkkk....
@steps source=function_step line=2
@line 3 ms=4 visits=1
@line 2 ms=6 visits=1
@span next next start=0 end=0.01 line=1 times=40 every=10
@span function step start=0 end=6 line=2 times=40 every=10
"""


def _printed(line: str) -> bool:
    """Whether a line that takes 4 of each step's 10 ms is told of as printing."""
    trace = parse_drawing(STEP)
    trace = replace(trace, facts={**trace.facts, "sources": {DRAWN_FILE: f"for x in ds:\n    step(x)\n    {line}\n"}})
    found = diagnose_trace(trace, [CAUSE, cause_by_id("host/python-in-step")])
    (one,) = found.diagnoses
    return one.cause == CAUSE.id


@pytest.mark.parametrize(
    "line",
    [
        "print(f'{n} {loss:.3f}', flush=True)",
        "print('loss', round(loss, 3), time.time() - t)",
        "self._log.debug('batch %d', n)",
        "LOGGER.info('batch %d', n)",
        "sys.stdout.write('%d' % n)",
        "rows.writerow([n, loss])",
        "bar.set_postfix(loss=loss)",
    ],
)
def test_a_line_that_makes_text_prints(line: str) -> None:
    assert _printed(line)


@pytest.mark.parametrize(
    "line",
    [
        "print(score(x))",
        "y = math.log(x)",
        "table.log(n)",
        "records.write(x)",
        "out.write(x)",
        "out.write(x.tobytes())",
        "history.append('%d' % n)",
    ],
)
def test_a_line_that_may_do_other_work_is_left_to_python_in_step(line: str) -> None:
    assert not _printed(line)


def test_what_prints_and_what_computes_are_priced_apart() -> None:
    trace = parse_drawing(CAUSE.fires[1])
    finding = CAUSE.find(trace)
    assert finding is not None
    evidence = CAUSE.evidence(trace, finding)
    assert [place.line for place in evidence.where] == [3]
    assert evidence.numbers["print_ms"] == pytest.approx(3.6, rel=0.01)  # of 4 ms of Python; the loop itself is not it
    (drop,) = CAUSE.remedies(trace, finding)
    assert isinstance(drop, Drop)
    assert drop.ms[Category.PYTHON] == pytest.approx(0.99 * 3.6, rel=0.01)


def test_waiting_for_a_terminal_is_no_processor_time() -> None:
    trace = parse_drawing(f"{CAUSE.fires[0]}\n@fact main_cpu_ms=1.5")
    finding = CAUSE.find(trace)
    assert finding is not None
    (drop,) = CAUSE.remedies(trace, finding)
    assert isinstance(drop, Drop)
    assert drop.cpu == pytest.approx(0.5)
