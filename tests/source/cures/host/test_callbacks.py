"""Callbacks work less often where they only watch."""

from __future__ import annotations

import pytest

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import periodic_work
from slowtrain.script.text import source_file
from tests.source.cures.edit_cases import assert_edit, edit_cases

CASES = edit_cases('''
== rarer_hook 1
 class Watch(keras.callbacks.Callback):
     def on_train_batch_end(self, batch, logs=None):
         """Keeps histograms."""
+        if batch % 100:
+            return
         self.rows.append(np.histogram(self.model.weights[0]))
== rarer_hook 2
 class Watch(keras.callbacks.Callback):
     def __init__(self, path):
         self.path = path

     def on_train_batch_end(self, batch, logs):
+        if batch % 100:
+            return
         self.update(logs)

     def update(self, logs):
         json.dump(logs, open(self.path, "w"))
== rarer_hook 3
 class Watch(keras.callbacks.Callback):
     def on_train_batch_end(self, batch, logs=None):
         if logs["loss"] > 10:
             self.model.stop_training = True
== rarer_hook 4
 class Watch(keras.callbacks.Callback):
     def on_train_batch_end(self, batch, logs=None):
         self.change()

     def change(self):
         self.model.optimizer.learning_rate.assign(0.1)
== rarer_hook 5
 class Watch(keras.callbacks.Callback):
     def on_train_batch_end(self, batch, logs=None):
         self.seen += 1
         if self.seen > 10:
             save()
== rarer_hook 8: what it counts is counted on
 class Watch(keras.callbacks.Callback):
     def on_train_batch_end(self, batch, logs=None):
         self.step += 1
+        if batch % 100:
+            return
         self.book.note(step=self.step, loss=logs["loss"])
== rarer_hook 9: what it has counted decides
 class Watch(keras.callbacks.Callback):
     def on_train_batch_end(self, batch, logs=None):
         self.step += 1
         self.write()

     def write(self):
         if self.step > 9:
             save()
== rarer_hook 10: it counts nothing else
 class Watch(keras.callbacks.Callback):
     def on_train_batch_end(self, batch, logs=None):
         self.step += 1
== rarer_hook 11: counts behind the work
 class Watch(keras.callbacks.Callback):
     def on_train_batch_end(self, batch, logs=None):
+        if batch % 100:
+            self.step += 1
+            return
         save()
         self.step += 1
== rarer_hook 6
 class Watch(keras.callbacks.Callback):
     def on_train_batch_end(self, batch, logs=None):
         if batch % 10 == 0:
             save()
== rarer_hook 7
 class Watch(keras.callbacks.Callback):
     def on_train_batch_end(self, batch, logs=None): save("%d" % batch)
== lighter:TensorBoard 1
-cb = keras.callbacks.TensorBoard("logs", histogram_freq=1, write_graph=True, write_images=True, update_freq="batch")
+cb = keras.callbacks.TensorBoard("logs", histogram_freq=0, write_graph=False, write_images=False, update_freq="epoch")
== lighter:ModelCheckpoint 1
 cb = tf.keras.callbacks.ModelCheckpoint(
     "weights.keras",  # kept
-    save_freq=10,
+    save_freq="epoch",
 )
== lighter:ModelCheckpoint 6
 cb = ModelCheckpoint("last.keras", **{"save_freq": "epoch"})
== lighter:ModelCheckpoint 7
 cb = ModelCheckpoint("last.keras", **read("saving.json"))
== lighter:ModelCheckpoint 8
 NAME = "weights.{batch:05d}.keras"
 cb = ModelCheckpoint(NAME, save_freq=10)
== lighter:ModelCheckpoint 2
 cb = ModelCheckpoint("weights.{batch:05d}.keras", save_freq=10)
== lighter:ModelCheckpoint 3
 cb = ModelCheckpoint("best.keras", save_best_only=True)
''')


@pytest.mark.parametrize("name", CASES)
def test_edit(name: str) -> None:
    kind, _, callback = name.split(maxsplit=1)[0].partition(":")

    def make_edits(text: source_file.Source, _: int) -> list[Edit]:
        if kind == "rarer_hook":
            return periodic_work.run_hook_less_often(text, "Watch", "on_train_batch_end")
        return periodic_work.make_callbacks_lighter(text, callback)

    assert_edit(CASES[name], make_edits)


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
