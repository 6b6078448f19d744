"""Models built in every turn of a loop are built once where the turns stay the same."""

from __future__ import annotations

import pytest

from slowtrain.causes.host.compile_in_loop import model_hoisting
from tests.source.cures.edit_cases import assert_edit, edit_cases

CASES = edit_cases("""
== a model of a function, compiled in the loop
 import tensorflow as tf
 def build():
     return tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
+model = build()
+model.compile("adam", "mse")
+model.optimizer.build(model.trainable_variables)
+start_state = [v.numpy() for v in model.optimizer.variables]
 for train, test in folds.split(x):
-    model = build()
-    model.compile("adam", "mse")
+    model.set_weights(build().get_weights())
+    for variable, value in zip(model.optimizer.variables, start_state):
+        variable.assign(value)
     model.fit(x[train], y[train], verbose=0)  # HERE
     print(model.evaluate(x[test], y[test]))
== a function that compiles
 import keras
 def build():
     model = keras.Sequential([keras.layers.Dense(4, input_shape=(3,))])
     model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
     return model
 def main():
     scores = []
+    model = build()  # new
+    model.optimizer.build(model.trainable_variables)
+    start_state = [v.numpy() for v in model.optimizer.variables]
     for k in range(5):
-        model = build()  # new
+        model.set_weights(build().get_weights())
+        for variable, value in zip(model.optimizer.variables, start_state):
+            variable.assign(value)  # new
         model.fit(x, y)  # HERE
         scores.append(model.evaluate(x, y))
== sizes that differ
 import keras
 def build(units):
     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units)])
     model.compile("adam", "mse")
     return model
 for units in (4, 8, 16):
     model = build(units)
     model.fit(x, y)  # HERE
== models that are kept
 import keras
 def build():
     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
     model.compile("adam", "mse")
     return model
 models = []
 for k in range(4):
     model = build()
     model.fit(x, y)  # HERE
     models.append(model)
== a model without shapes
 import keras
 for k in range(4):
     model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1)])
     model.compile("adam", "mse")
     model.fit(x, y)  # HERE
== a session that is cleared
 import keras
 for k in range(4):
     keras.backend.clear_session()
     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
     model.compile("adam", "mse")
     model.fit(x, y)  # HERE
== an unknown model
 import tensorflow as tf
 for k in range(4):
     model = build()
     model.compile("adam", "mse")
     model.fit(x, y)  # HERE
""")


@pytest.mark.parametrize("name", CASES)
def test_edit(name: str) -> None:
    assert_edit(CASES[name], model_hoisting.hoist_model)
