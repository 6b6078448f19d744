"""Switches that make graphs run eagerly are taken back where nothing needs them."""

from __future__ import annotations

import pytest

from slowtrain.causes.host.eager_step import fix
from tests.source.cures.edit_cases import assert_edit, edit_cases

CASES = edit_cases("""
== without_eager_compile 1
 from tensorflow import keras
-model.compile(optimizer='adam', loss='mae', metrics=['mse'], run_eagerly=True)  # HERE
+model.compile(optimizer='adam', loss='mae', metrics=['mse'])  # HERE
== without_eager_compile 4
 model.compile("adam", "mse", run_eagerly=len(sys.argv) > 1)  # HERE
== without_eager_compile 5
 import tensorflow as tf
 class Cell(tf.keras.Model):
     def call(self, z):
-        h = tf.zeros((z.shape[0], 10))
+        h = tf.zeros((tf.shape(z)[0], 10))
         for t in range(z.shape[1]):
             h = self.k(tf.concat([z[:, t], h], 1))
         return h
 model = Cell()
-model.compile("adam", "mse", run_eagerly=True)  # HERE
+model.compile("adam", "mse")  # HERE
== without_eager_compile 6
 import tensorflow as tf
 class Net(tf.keras.Model):
     def call(self, x):
         if x.numpy().max() > 1:
             x = x / 255.0
         return self.dense(x)
 model = Net()
 model.compile("adam", "mse", run_eagerly=True)  # HERE
== without_eager_compile 7
 import numpy as np
 def loss(y_true, y_pred):
     return np.mean((y_true - y_pred) ** 2)
 model.compile("adam", loss, run_eagerly=True)  # HERE
== without_eager_compile 8
 import tensorflow as tf
 class Net(tf.keras.Model):
     def call(self, x):
         n, m = x.shape
         return self.dense(tf.reshape(x, (n * 2, m // 2)))
 model = Net()
 model.compile("adam", "mse", run_eagerly=True)  # HERE
== without_eager_switch 2
 import tensorflow as tf
-tf.config.experimental_run_functions_eagerly(run_eagerly=True)
+tf.config.experimental_run_functions_eagerly(run_eagerly=False)
== without_eager_switch 3
 import tensorflow as tf
 tf.config.run_functions_eagerly(True)
 @tf.function
 def step(x, y):
     loss = lossf(y, model(x))
     print("loss", loss.numpy())
     return loss
== without_eager_switch 4
 import tensorflow as tf
-tf.config.run_functions_eagerly(True)
+tf.config.run_functions_eagerly(False)
 predict(x)
 tf.config.run_functions_eagerly(False)
== without_eager_switch 6: where the setting is written
 import tensorflow as tf
-CONFIG = {"runtime": {"threads": 0, "debug": True}}
+CONFIG = {"runtime": {"threads": 0, "debug": False}}
 def prepare(cfg):
     rt = cfg["runtime"]
     tf.config.run_functions_eagerly(rt["debug"])
 prepare(CONFIG)
== without_eager_switch 7: the setting is asked for elsewhere as well
 import tensorflow as tf
 CONFIG = {"debug": True}
-tf.config.run_functions_eagerly(CONFIG["debug"])
+tf.config.run_functions_eagerly(False)
 if CONFIG["debug"]:
     check()
== without_eager_switch 8
 import tensorflow as tf
 CONFIG = {"debug": False}
 tf.config.run_functions_eagerly(CONFIG["debug"])
== without_eager_switch 5
 import tensorflow as tf
 tf.config.run_functions_eagerly(DEBUG)
""")


@pytest.mark.parametrize("name", CASES)
def test_edit(name: str) -> None:
    if name.startswith("without_eager_switch"):
        assert_edit(CASES[name], lambda text, _: fix.without_eager_switch(text))
    else:
        assert_edit(CASES[name], fix.without_eager_compile)
