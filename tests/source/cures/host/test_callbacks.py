"""Callbacks work less often where they only watch."""

from __future__ import annotations

import pytest

from slowtrain.script.fixes.loops import periodic_work
from slowtrain.script.text import edits, source_file

# Name: the script before (with HERE at the line that a run named), and after; None where nothing may be edited.
CASES: dict[str, tuple[str, str | None]] = {
    "rarer_hook 1": (
        '''\
class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        """Keeps histograms."""
        self.rows.append(np.histogram(self.model.weights[0]))
''',
        '''\
class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        """Keeps histograms."""
        if batch % 100:
            return
        self.rows.append(np.histogram(self.model.weights[0]))
''',
    ),
    "rarer_hook 2": (
        """\
class Watch(keras.callbacks.Callback):
    def __init__(self, path):
        self.path = path

    def on_train_batch_end(self, batch, logs):
        self.update(logs)

    def update(self, logs):
        json.dump(logs, open(self.path, "w"))
""",
        """\
class Watch(keras.callbacks.Callback):
    def __init__(self, path):
        self.path = path

    def on_train_batch_end(self, batch, logs):
        if batch % 100:
            return
        self.update(logs)

    def update(self, logs):
        json.dump(logs, open(self.path, "w"))
""",
    ),
    "rarer_hook 3": (
        """\
class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if logs["loss"] > 10:
            self.model.stop_training = True
""",
        None,
    ),
    "rarer_hook 4": (
        """\
class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.change()

    def change(self):
        self.model.optimizer.learning_rate.assign(0.1)
""",
        None,
    ),
    "rarer_hook 5": (
        """\
class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen > 10:
            save()
""",
        None,
    ),
    "rarer_hook 8": (  # what it counts is counted on
        """\
class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        self.book.note(step=self.step, loss=logs["loss"])
""",
        """\
class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if batch % 100:
            return
        self.book.note(step=self.step, loss=logs["loss"])
""",
    ),
    "rarer_hook 9": (  # what it has counted decides
        """\
class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        self.write()

    def write(self):
        if self.step > 9:
            save()
""",
        None,
    ),
    "rarer_hook 10": (  # it counts nothing else
        """\
class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
""",
        None,
    ),
    "rarer_hook 11": (  # counts behind the work
        """\
class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        save()
        self.step += 1
""",
        """\
class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch % 100:
            self.step += 1
            return
        save()
        self.step += 1
""",
    ),
    "rarer_hook 6": (
        """\
class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch % 10 == 0:
            save()
""",
        None,
    ),
    "rarer_hook 7": (
        """\
class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None): save("%d" % batch)
""",
        None,
    ),
    "lighter:TensorBoard 1": (
        """\
cb = keras.callbacks.TensorBoard("logs", histogram_freq=1, write_graph=True, write_images=True, update_freq="batch")
""",
        """\
cb = keras.callbacks.TensorBoard("logs", histogram_freq=0, write_graph=False, write_images=False, update_freq="epoch")
""",
    ),
    "lighter:TensorBoard 2": (
        """\
cb = keras.callbacks.TensorBoard("logs")
""",
        None,
    ),
    "lighter:ModelCheckpoint 1": (
        """\
cb = tf.keras.callbacks.ModelCheckpoint(
    "weights.keras",  # kept
    save_freq=10,
)
""",
        """\
cb = tf.keras.callbacks.ModelCheckpoint(
    "weights.keras",  # kept
    save_freq="epoch",
)
""",
    ),
    "lighter:ModelCheckpoint 6": (
        """\
cb = ModelCheckpoint("last.keras", **{"save_freq": "epoch"})
""",
        None,
    ),
    "lighter:ModelCheckpoint 7": (
        """\
cb = ModelCheckpoint("last.keras", **read("saving.json"))
""",
        None,
    ),
    "lighter:ModelCheckpoint 8": (
        """\
NAME = "weights.{batch:05d}.keras"
cb = ModelCheckpoint(NAME, save_freq=10)
""",
        None,
    ),
    "lighter:ModelCheckpoint 2": (
        """\
cb = ModelCheckpoint("weights.{batch:05d}.keras", save_freq=10)
""",
        None,
    ),
    "lighter:ModelCheckpoint 3": (
        """\
cb = ModelCheckpoint("best.keras", save_best_only=True)
""",
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_edit(name: str) -> None:
    before, after = CASES[name]
    text = source_file.parse_source("train.py", before)
    assert text is not None
    kind = name.split(maxsplit=1)[0]
    if kind == "rarer_hook":
        found = periodic_work.run_hook_less_often(text, "Watch", "on_train_batch_end")
    else:
        found = periodic_work.make_callbacks_lighter(text, kind.partition(":")[2])
    assert (edits.edited_text(text, found) if found else None) == after


def test_callbacks_that_look_at_batches_are_seen() -> None:
    looks = (
        "cb = ModelCheckpoint(path, save_freq=10)",
        "class C(Callback):\n    def on_batch_end(self, b, logs): pass\n",
    )
    others = "cb = ModelCheckpoint(path, save_freq='epoch')", "cb = EarlyStopping()"
    seen = [
        periodic_work.observes_batches(text)
        for one in (*looks, *others)
        if (text := source_file.parse_source("a.py", one))
    ]
    assert seen == [True, True, False, False]
