"""Arguments of Keras calls, and cheaper calls."""

from __future__ import annotations

import pytest

from slowtrain.script.fixes.models import epoch_steps, keras_calls
from tests.source.cures.edit_cases import assert_edit, edit_cases

CASES = edit_cases("""
== run_several_steps_per_call 2
 model.compile(
     optimizer="adam",
-    loss="mse",  # HERE
+    loss="mse", steps_per_execution=50,  # HERE
 )
== run_several_steps_per_call 3
 class Seen(keras.callbacks.Callback):
     def on_train_batch_end(self, batch, logs=None):
         print(batch)
 model.compile("adam", "mse")  # HERE
== run_several_steps_per_call 4
 model.compile("adam", "mse", run_eagerly=True)  # HERE
== run_several_steps_per_call 5
-model.compile("adam", "mse", steps_per_execution=1)  # HERE
+model.compile("adam", "mse", steps_per_execution=50)  # HERE
== run_several_steps_per_call 6
 model.compile(**options)  # HERE
== run_several_steps_per_call 7
 model.compile("adam", "mse")  # HERE
 saver = ModelCheckpoint("best.keras", save_freq=100)
== run_several_steps_per_call 8
 model.compile("adam", "mse")  # HERE
 model.fit(ds.repeat(), steps_per_epoch=STEPS)
== run_several_steps_per_call 10
 model.compile("adam", "mse")  # HERE
 model.fit(ds.repeat(), **options(steps_per_epoch=n))
== disable_xla 1
-model.compile("adam", "mse", jit_compile=True)  # HERE
+model.compile("adam", "mse", jit_compile=False)  # HERE
== disable_unroll 1
-layer = keras.layers.LSTM(24, unroll=True, return_sequences=True)  # HERE
+layer = keras.layers.LSTM(24, return_sequences=True)  # HERE
== disable_unroll by default
-def forecaster(units, unroll=True):  # HERE
+def forecaster(units, unroll=False):  # HERE
     return keras.layers.LSTM(units, unroll=unroll)
 model = forecaster(24)
== disable_unroll 2
 layer = keras.layers.LSTM(24, unroll=UNROLL)  # HERE
== use_predict_on_batch 1
 for x in rows:
-    scores = model.predict(x[None], verbose=0)[0]  # HERE
+    scores = model.predict_on_batch(x[None])[0]  # HERE
== use_predict_on_batch 2
-p = self.model.predict(x=state, batch_size=1)  # HERE
+p = self.model.predict_on_batch(x=state)  # HERE
== use_predict_on_batch 3
 p = model.predict(ds.batch(3).take(1), verbose=0)  # HERE
== use_predict_on_batch 4
 import tensorflow as tf
 ds = tf.data.Dataset.from_tensor_slices(x).batch(1)
 p = model.predict(ds)  # HERE
== use_predict_on_batch 5
 p = model.predict(x, steps=1)  # HERE
== use_predict_on_batch 6
 p = model.predict(a) + model.predict(b)  # HERE
== use_train_on_batch 2
 for x, y in chunks:
     h = model.fit(x, y, epochs=1, verbose=0)  # HERE
== use_train_on_batch 3
 model.fit(x, y, epochs=2)  # HERE
== use_train_on_batch 6
-model.fit(x=a, y=b, batch_size=len(a), shuffle=False)  # HERE
+model.train_on_batch(x=a, y=b)  # HERE
== count_steps_in_batches 1
 BATCH = 32
 ds = Dataset.from_tensor_slices(x).repeat().batch(BATCH)
-model.fit(ds, steps_per_epoch=len(x), epochs=2)  # HERE
+model.fit(ds, steps_per_epoch=len(x) // BATCH, epochs=2)  # HERE
== count_steps_in_batches 3
 def gen(b=64):
     while True:
         for k in range(0, 6400, b):
             yield x[k:k + b], y[k:k + b]
-model.fit(gen(16), steps_per_epoch=6400)  # HERE
+model.fit(gen(16), steps_per_epoch=6400 // 16)  # HERE
== count_steps_in_batches 4
 model.fit(load(), steps_per_epoch=6400)  # HERE
== count_steps_in_batches 5
 class Store:
     def batches(self, size):
         ds = Dataset.from_tensor_slices(self.x)
         return ds.shuffle(9).batch(size, drop_remainder=True).repeat()
 class Run:
     def go(self):
-        self.model.fit(self.store.batches(self.batch_size), steps_per_epoch=self.length)  # HERE
+        self.model.fit(self.store.batches(self.batch_size), steps_per_epoch=self.length // self.batch_size)  # HERE
== count_steps_in_batches 6
 class Store:
     def batches(self, size):
         ds = Dataset.from_tensor_slices(self.x)
         size = size // 2
         return ds.shuffle(9).batch(size, drop_remainder=True).repeat()
 class Run:
     def go(self):
         self.model.fit(self.store.batches(self.batch_size), steps_per_epoch=self.length)  # HERE
== count_steps_in_batches 7
 class Store:
     def batches(self, size):
         ds = Dataset.from_tensor_slices(self.x)
         return ds.shuffle(9).batch(size, drop_remainder=True).repeat()
 class Run:
     def go(self):
         self.model.fit(self.store.batches(next(sizes)), steps_per_epoch=self.length)  # HERE
== remove_repeat 1
-ds = ds.shuffle(100).repeat(EPOCHS).batch(4)  # HERE
+ds = ds.shuffle(100).batch(4)  # HERE
== remove_repeat 3
 ds = ds.repeat()  # HERE
""")


@pytest.mark.parametrize("name", CASES)
def test_edit(name: str) -> None:
    function = name.split(maxsplit=1)[0]
    assert_edit(CASES[name], getattr(epoch_steps if hasattr(epoch_steps, function) else keras_calls, function))
