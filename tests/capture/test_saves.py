"""What writes models and checkpoints is timed, with the line of the script's that asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowtrain.columns import intervals
from slowtrain.model import Phase
from slowtrain.trace.loading import recording_trace

from . import running

SAVING = """
    import numpy as np
    import tensorflow as tf
    from tensorflow import keras
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    x, y = np.zeros((64, 4), "float32"), np.zeros((64, 3), "float32")
    each_epoch = keras.callbacks.ModelCheckpoint("epoch.weights.h5", save_weights_only=True)
    model.fit(x, y, epochs=3, verbose=0, callbacks=[each_epoch])
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(checkpoint, "kept", 3)
    model.save("model.keras")
    model.save_weights("model.weights.h5")
    manager.save()
    checkpoint.write("written")
    tf.saved_model.save(tf.Module(), "saved")
    try:
        checkpoint.write(None)
    except Exception:
        print("the script's own error")
"""


@pytest.mark.tensorflow
def test_what_writes_models_and_checkpoints_is_a_phase_of_its_own(tmp_path: Path) -> None:
    done = running.recorded(tmp_path / "run", running.write(tmp_path, SAVING), cwd=tmp_path)
    assert (done.code, done.out) == (0, "the script's own error\n"), done.err
    trace = recording_trace.load_recording(done.folder)
    assert trace.facts.get("faults", []) == []
    found: dict[str, list[int]] = {}
    calls = trace.lane("save")
    for number in calls.name:
        name = trace.names[int(number)]
        assert name.place is not None
        found.setdefault(name.text, []).append(name.place.line)
    inner = found.pop("Checkpoint.write")
    assert found == {
        "save_weights": [9, 9, 9, 13],  # the callback's three are of the line that trains
        "save_model": [12],
        "CheckpointManager.save": [14],
        "save": [16],
    }
    assert [line for line in inner if line > 14] == [15, 18]
    spent = {p.name: p.ms for p in trace.run.parts}
    saved_ms = intervals.total_length(intervals.union(calls.start_ms, calls.end_ms))
    assert 0.5 * saved_ms < spent[str(Phase.CHECKPOINT)] < 1.001 * saved_ms  # some of it is of other phases, too
    assert sum(spent.values()) == pytest.approx(trace.run_ms, rel=1e-3)
