"""Arguments that make a function trace again become tensors, or keep their shapes open."""

from __future__ import annotations

import pytest

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import traced_arguments
from slowtrain.script.text import source_file
from tests.source.cures.edit_cases import assert_edit, edit_cases

CASES = edit_cases("""
== as_tensors:lr=float 1
 import tensorflow as tf
 @tf.function  # HERE
 def step(x, y, lr):
     loss, grads = work(x, y)
     for v, g in zip(vs, grads):
         v.assign_sub(lr * g)
 for x, y in ds:
     lr *= 0.99
-    step(x, y, lr)  # the rate falls
+    step(x, y, tf.constant(lr, tf.float32))  # the rate falls
== as_tensors:lr=float 2
 import tensorflow
 @tensorflow.function  # HERE
 def step(x, lr=0.1):
     opt.learning_rate.assign(lr)
 step(
     x,
-    lr=0.1 * 0.9 ** epoch,
+    lr=tensorflow.constant(0.1 * 0.9 ** epoch, tensorflow.float32),
 )
== as_tensors:k=int 4
 import tensorflow as tf
 @tf.function  # HERE
 def step(x, k):
     return tf.reshape(x, (k, -1))
 for k in range(3):
     step(x, k)
== as_tensors:step=int,weights=float 1
 import tensorflow as tf
 @tf.function  # HERE
 def update(x, step, weights):
     ramp = tf.minimum(1.0, tf.cast(step, tf.float32) / 80.0)
     return ramp * tf.reduce_mean(x * tf.stack(weights))
-update(x, 0, [1.0] * 5)
+update(x, tf.constant(0), tf.constant([1.0] * 5, tf.float32))
 for step in range(9):
     weights = counts.tolist()
-    update(x, step, weights)
+    update(x, tf.constant(step), tf.constant(weights, tf.float32))
== as_tensors:lr=float 3
 import tensorflow as tf
 @tf.function  # HERE
 def step(x, lr):
     return model(x, rate=lr)
 step(x, lr)
== as_tensors:lr=float 4
 import tensorflow as tf
 class Trainer:
     @tf.function  # HERE
     def step(self, x, lr):
         return lr * tf.reduce_sum(x)

     def run(self, ds):
         for n, x in enumerate(ds):
-            self.step(x, 0.1 / (n + 1))
+            self.step(x, tf.constant(0.1 / (n + 1), tf.float32))
== as_tensors:lr=float 6
 import tensorflow as tf
 @tf.function  # HERE
 def step(x, lr):
     return lr * tf.reduce_sum(x)
 step(*args)
== as_tensors:lr=float 7
 import tensorflow as tf
 tf.keras.backend.set_floatx("float64")
 @tf.function  # HERE
 def step(x, lr):
     return lr * tf.reduce_sum(x)
 step(x, 0.1)
== as_tensors:beta=float 2: it may come from the default
 import tensorflow as tf
 @tf.function  # HERE
 def step(x, beta=1.0):
     return beta * tf.reduce_sum(x)
 step(x, **weights)
== as_tensors:beta=float 3: nobody knows which of both holds it
 import tensorflow as tf
 @tf.function  # HERE
 def step(x, beta):
     return beta * tf.reduce_sum(x)
 step(**inputs, **weights)
== as_tensors:tau=float 2: the function that it is handed to wants a number
 import tensorflow as tf
 class Coder:
     def relax(self, logits, tau):
         if tau < 0.5:
             return logits
         return tf.nn.softmax(logits / tau)
     @tf.function  # HERE
     def update(self, x, tau):
         return self.relax(x, tau)
     def train(self):
         for step in range(9):
             self.update(x, self.schedule(step))
== as_entries:hp=beta=float 1
 import tensorflow as tf
 @tf.function  # HERE
 def step(x, hp):
     opt.learning_rate.assign(hp["rate"])
     return work(x) + hp["beta"] * tf.reduce_sum(x)
 for x in ds:
-    step(x, hp)
+    step(x, {**hp, "beta": tf.constant(hp["beta"], tf.float32)})
== as_entries:hp=beta=float 2
 import tensorflow as tf
 @tf.function  # HERE
 def step(x, hp):
     return work(x, hp) + hp["beta"] * tf.reduce_sum(x)
 step(x, hp)
== as_entries:hp=beta=float 3
 import tensorflow as tf
 @tf.function  # HERE
 def step(x, hp):
     if hp["beta"] > 0.5:
         x = x * 2.0
     return work(x)
 step(x, hp)
== as_entries:hp=beta=float 4
 import tensorflow as tf
 @tf.function  # HERE
 def step(x, hp):
     return work(x) + hp["beta"] * tf.reduce_sum(x)
 step(x, schedule(epoch))
== reduced 3
 import tensorflow as tf
 @tf.function(jit_compile=True)  # HERE
 def step(ids, y):
     return loss(y, model(ids))
== reduced of_a_shape_in_the_graph
 import tensorflow as tf
-@tf.function  # HERE
+@tf.function(reduce_retracing=True)  # HERE
 def step(ids, y):
     return loss(y, model(ids)) / tf.cast(tf.shape(ids)[1], tf.float32)
== reduced 5
 import tensorflow as tf
 @tf.function(input_signature=[tf.TensorSpec((4,))])  # HERE
 def step(ids):
     return model(ids)
""")


@pytest.mark.parametrize("name", CASES)
def test_edit(name: str) -> None:
    kind, _, numbers = name.split(maxsplit=1)[0].rstrip(":").partition(":")

    def make_edits(text: source_file.Source, line: int) -> list[Edit]:
        if kind == "reduced":
            return traced_arguments.reduce_retracing(text, line)
        if kind == "as_entries":
            parameter, key, number = numbers.split("=")
            return traced_arguments.pass_tensor_entries(text, line, parameter, {key: number})
        return traced_arguments.pass_tensors(text, line, dict(one.split("=") for one in numbers.split(",")))

    assert_edit(CASES[name], make_edits)


def seen(body: str, sizes: traced_arguments.AxisSizes) -> list[str]:
    text = source_file.parse_source("train.py", f"import tensorflow as tf\n@tf.function\ndef step(x, y):\n    {body}\n")
    assert text is not None
    return [e.text for e in traced_arguments.reduce_retracing(text, 3, sizes)]


@pytest.mark.parametrize("axis", ["-1"])
def test_a_size_that_stays_may_be_asked_for(axis: str) -> None:
    assert seen(f"return f(x, x.shape[{axis}])", {"x": (8, None, 40)}) == ["(reduce_retracing=True)"]


@pytest.mark.parametrize("asked", ["x.shape[1]",  "x.shape[3]", "x.shape",
                                   "x.get_shape()", "len(x)", ])  # fmt: skip
def test_a_size_that_varies_may_not(asked: str) -> None:
    assert seen(f"return f(x, {asked})", {"x": (8, None, 40), "y": None}) == []


def test_what_is_no_longer_the_argument_may_not_be_asked() -> None:
    assert seen("x = tf.transpose(x); return f(x.shape[0])", {"x": (8, None, 40)}) == []
