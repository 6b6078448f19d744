"""Too few cores for the input: the cures, of which ``fix`` tries none that needs other computers."""

from __future__ import annotations

import json

import pytest

from slowtrain.causes import cause_by_id
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Diagnosis, Effect
from slowtrain.verify.fix.remaining_work import manual_cures

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

CAUSE = cause_by_id("input/starved-host")
STARVED = """
step    1111111111
input   iiiiiiii..
device  ........kk
@fact cpu_ms_per_step=19 usable_cores=2 devices=[{"kind":"GPU"}]
@pipeline Slices ms=0.1 detail={"cardinality":1000,"element":[{"shape":[64],"bytes":4}]}
> ParallelMapV2 ms=15 elements=16 parallelism=8 line=4
> Batch ms=0.1 line=4 > Prefetch
"""
SCRIPT = """import tensorflow as tf

ds = tf.data.Dataset.from_tensor_slices(names)
ds = ds.map(load, num_parallel_calls=8).batch(16).prefetch(2)
model.fit(ds)
"""


def _diagnosis(drawing: str = STARVED) -> Diagnosis:
    known = f"@fact sources={json.dumps({'train.py': SCRIPT})}"
    (found,) = diagnose_trace(parse_drawing(f"{drawing}\n{known}"), [CAUSE]).diagnoses
    return found


def test_other_computers_are_a_setting_with_an_edit() -> None:
    advice, service = _diagnosis().prescriptions
    assert (advice.kind, service.kind, service.effect) == ("advice", "setting", Effect.CHANGES_TRAINING)
    assert 'service.distribute("distributed_epoch"' in (service.diff or "")
    assert "8 cores there would keep up" in service.says  # 15 ms of work in the 2 ms of a step without its wait


def test_as_many_cores_again_make_a_batch_in_half_the_time() -> None:
    """Beside training on a CPU they would not help: it needs the same cores."""
    assert _diagnosis().saving.after_ms == pytest.approx(5.25)
    assert diagnose_trace(parse_drawing(STARVED.replace("GPU", "CPU")), [CAUSE]).diagnoses == ()


def test_fix_does_not_try_a_setting() -> None:
    found = _diagnosis()
    assert [p.can_be_tried for p in found.prescriptions] == [False, False]
    (left,) = manual_cures([found], (), frozenset({Effect.EXACT}))
    assert left.says == found.prescriptions[0].says
    assert left.needs is None


def test_large_arrays_and_python_have_no_service() -> None:
    large = STARVED.replace('"shape":[64]', '"shape":[640000]')
    assert _diagnosis(large).prescriptions[1].edits == ()
    python = STARVED.replace(
        "> Batch ms=0.1 line=4", '> Map ms=0.1 line=4 detail={"ops":{"PyFunc":1}} > Batch ms=0.1 line=4'
    )
    assert [p.kind for p in _diagnosis(python).prescriptions] == ["advice"]
