"""Random image work on the host: when it is found, what its move costs the step, and which cure comes first."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from slowtrain.causes import cause_by_id
from slowtrain.causes.input.host_augmentation import HostAugmentation
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Diagnosis, Effect
from slowtrain.whatif import Supply

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

GPU = '@fact devices=[{"kind":"GPU"}]'
SHAPE = '"element":[{"shape":[32,32,3],"dtype":"float32"},{"shape":[],"dtype":"int64"}]'
AUGMENTED = f"""
step    1111111111
input   iiiiiii...
device  .......kkk
@pipeline Slices ms=0.1 detail={{{SHAPE}}}
> ParallelMapV2 ms=70 elements=32 parallelism=8 line=8
detail={{"ops":{{"StatelessRandomUniformV2":4,"ImageProjectiveTransformV3":2,"Mul":20}},{SHAPE}}}
> Batch ms=0.1 line=9 > Prefetch
"""
SCRIPT = """import keras
import tensorflow as tf
from keras import layers

x, y = load()
turn = layers.RandomRotation(0.1)
ds = tf.data.Dataset.from_tensor_slices((x, y))
ds = ds.map(lambda x, y: (turn(x, training=True), y), num_parallel_calls=8)
ds = ds.batch(32).prefetch(2)
model = keras.Sequential([keras.Input((32, 32, 3)), layers.Flatten(), layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(ds)
"""


def _diagnosis(drawing: str, text: str = SCRIPT, keras: str = "3.15.1") -> Diagnosis:
    trace = parse_drawing(f"{drawing}\n@fact sources={json.dumps({'train.py': text})}")
    trace = replace(trace, facts={**trace.facts, "version.keras": keras})
    (found,) = diagnose_trace(trace, [cause_by_id("input/host-augmentation")]).diagnoses
    return found


def test_the_work_leaves_the_host_first_if_there_is_a_device() -> None:
    in_model, on_batches = _diagnosis(f"{AUGMENTED}{GPU}").prescriptions
    assert (in_model.effect, on_batches.effect) == (Effect.EQUIVALENT, Effect.EQUIVALENT)
    assert "+model = keras.Sequential([keras.Input((32, 32, 3)), turn, layers.Flatten()" in (in_model.diff or "")
    assert "+ds = ds.batch(32)" in (on_batches.diff or "")
    assert [p.says for p in _diagnosis(AUGMENTED).prescriptions] == [on_batches.says, in_model.says]


def test_an_older_keras_draws_one_contrast_for_a_batch() -> None:
    text = SCRIPT.replace("RandomRotation", "RandomContrast")
    for version, count in (("3.6.0", 2), ("3.5.0", 0), ("2.15.0", 0)):
        found = _diagnosis(f"{AUGMENTED}{GPU}", text, version)
        assert sum(bool(p.edits) for p in found.prescriptions) == count
        rotated = _diagnosis(f"{AUGMENTED}{GPU}", SCRIPT, version)
        assert all(p.edits for p in rotated.prescriptions)


@pytest.mark.parametrize(("machine", "moved_ms"), [(GPU, 2.1), ("@fact usable_cores=4", 5.25)])
def test_the_step_gets_longer_by_what_moves(machine: str, moved_ms: float) -> None:
    """Of 70 ms of a map three tenths are taken to be inside its ops: on a device a tenth of them, or on four cores."""
    trace, cause = parse_drawing(f"{AUGMENTED}{machine}"), HostAugmentation()
    found = cause.find(trace)
    assert found is not None
    (remedy,) = cause.remedies(trace, found)
    assert isinstance(remedy, Supply)
    assert remedy.added_ms == pytest.approx(moved_ms)


def test_whole_batches_are_worth_moving_to_a_device_only() -> None:
    whole = AUGMENTED.replace("elements=32 parallelism=8 line=8", "elements=1 parallelism=8 line=8")
    assert HostAugmentation().find(parse_drawing(whole)) is None
    text = SCRIPT.replace("ds = ds.batch(32).prefetch(2)\n", "").replace("(x, y))\n", "(x, y)).batch(32)\n", 1)
    found = _diagnosis(f"{whole}{GPU}", text)
    assert "an element" not in found.evidence.says
    (cure,) = found.prescriptions
    assert cure.edits
