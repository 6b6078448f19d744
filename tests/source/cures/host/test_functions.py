"""Steps that run eagerly become graphs where that is safe, and are left alone where it is not."""

from __future__ import annotations

import pytest

from slowtrain.causes.host.eager_step import compiled_steps
from tests.source.cures.edit_cases import assert_edit, edit_cases

CASES = edit_cases('''
== inline module-level
 import tensorflow as tf
 ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
+
+
+@tf.function
+def train_step(xb, yb):
+    with tf.GradientTape() as tape:
+        pred = model(xb, training=True)  # forward
+        loss = loss_fn(yb, pred)
+    grads = tape.gradient(loss, model.trainable_variables)  # HERE
+    opt.apply_gradients(zip(grads, model.trainable_variables))
+    acc.update_state(yb, pred)
+    return loss
+
+
 for epoch in range(3):
     total = 0.0
     for step, (xb, yb) in enumerate(ds):
-        with tf.GradientTape() as tape:
-            pred = model(xb, training=True)  # forward
-            loss = loss_fn(yb, pred)
-        grads = tape.gradient(loss, model.trainable_variables)  # HERE
-        opt.apply_gradients(zip(grads, model.trainable_variables))
-        acc.update_state(yb, pred)
+        loss = train_step(xb, yb)
         total += float(loss)
         if step % 100 == 0:
             print(step, loss.numpy())
== impure tail in function
 import tensorflow as tf

-def train_step(model, optimizer, x, y):
-    """One step."""
+@tf.function
+def compiled_step(model, optimizer, x, y):
     with tf.GradientTape() as tape:
         loss = loss_fn(y, model(x))
     g = tape.gradient(loss, model.trainable_variables)  # HERE
     optimizer.apply_gradients(zip(g, model.trainable_variables))
+    return loss
+
+
+def train_step(model, optimizer, x, y):
+    """One step."""
+    loss = compiled_step(model, optimizer, x, y)
     losses.append(loss.numpy())
     return float(loss)

 for x, y in ds:
     train_step(model, optimizer, x, y)
== method of trainer
 import tensorflow as tf
 class Trainer:
     def __init__(self, model):
         self.model = model
         self.opt = tf.keras.optimizers.Adam()
         self.steps = 0

+    @tf.function
     def step(self, x, y):
         with tf.GradientTape() as tape:
             loss = self.loss(y, self.model(x, training=True))
         grads = tape.gradient(loss, self.model.trainable_variables)  # HERE
         self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
         return loss

     def fit(self, ds):
         for x, y in ds:
             loss = self.step(x, y)
             self.steps += 1
== inline in function
 import tensorflow as tf
+
+
+@tf.function
+def train_step(model, opt, x, y):
+    with tf.GradientTape() as tape:
+        loss = tf.reduce_mean((model(x) - y) ** 2)
+    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights))  # HERE
+    return loss
+
+
 def train(model, ds, epochs):
     opt = tf.keras.optimizers.Adam()
     for epoch in range(epochs):
         for x, y in ds:
-            with tf.GradientTape() as tape:
-                loss = tf.reduce_mean((model(x) - y) ** 2)
-            opt.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights))  # HERE
+            loss = train_step(model, opt, x, y)
         print(epoch, float(loss))
 train(model, tf.data.Dataset.range(5).map(f), 3)
== gan
 import tensorflow as tf
+@tf.function
 def train_step(images):
     noise = tf.random.normal([BATCH_SIZE, noise_dim])
     with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
         generated_images = generator(noise, training=True)
         real_output = discriminator(images, training=True)
         fake_output = discriminator(generated_images, training=True)
         gen_loss = generator_loss(fake_output)
         disc_loss = discriminator_loss(real_output, fake_output)
     a = gen_tape.gradient(gen_loss, generator.trainable_variables)  # HERE
     b = disc_tape.gradient(disc_loss, discriminator.trainable_variables)
     generator_optimizer.apply_gradients(zip(a, generator.trainable_variables))
     discriminator_optimizer.apply_gradients(zip(b, discriminator.trainable_variables))
 for epoch in range(5):
     for image_batch in dataset:
         train_step(image_batch)
== lr changes outside: decline
 import tensorflow as tf
 lr = 0.1
 def step(x, y):
     with tf.GradientTape() as t:
         loss = lf(y, m(x))
     for v, g in zip(m.trainable_variables, t.gradient(loss, m.trainable_variables)):  # HERE
         v.assign_sub(lr * g)
     return loss
 for x, y in ds:
     lr *= 0.99
     step(x, y)
== numpy batches sliced, keras loss only
 import tensorflow as tf
 import numpy as np
+
+
+@tf.function
+def train_step(xb, yb):
+    with tf.GradientTape() as tape:
+        loss = loss_fn(yb, model(xb, training=True))
+    grads = tape.gradient(loss, model.trainable_variables)  # HERE
+    optimizer.apply_gradients(zip(grads, model.trainable_variables))
+    return loss
+
+
 for epoch in range(3):
     for i in range(0, len(X), 32):
         xb = X[i:i+32]
         yb = Y[i:i+32]
-        with tf.GradientTape() as tape:
-            loss = loss_fn(yb, model(xb, training=True))
-        grads = tape.gradient(loss, model.trainable_variables)  # HERE
-        optimizer.apply_gradients(zip(grads, model.trainable_variables))
+        loss = train_step(xb, yb)
     print(loss.numpy())
== numpy 8-byte in an operator: decline
 import tensorflow as tf
 import numpy as np
 X = np.random.rand(100, 3); Y = np.random.rand(100, 1)
 for i in range(0, len(X), 32):
     xb, yb = X[i:i+32], Y[i:i+32]
     with tf.GradientTape() as tape:
         loss = tf.reduce_mean(tf.square(model(xb) - yb))
     grads = tape.gradient(loss, model.trainable_variables)  # HERE
     optimizer.apply_gradients(zip(grads, model.trainable_variables))
== keras Model.train_step
 import tensorflow as tf
 class M(tf.keras.Model):
     def train_step(self, data):
         x, y = data
         with tf.GradientTape() as tape:
             loss = self.compute_loss(y=y, y_pred=self(x))
         g = tape.gradient(loss, self.trainable_variables)  # HERE
         self.optimizer.apply_gradients(zip(g, self.trainable_variables))
         return {"loss": loss}
== clip, multiple stmts, tf from keras import
 import tensorflow as tf
 from tensorflow.keras import layers
+@tf.function
 def train_one(x, y, clip=1.0):
     with tf.GradientTape() as tape:
         logits = net(x, training=True)
         loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
         loss += sum(net.losses)
     grads = tape.gradient(loss, net.trainable_variables)  # HERE
     grads = [tf.clip_by_norm(g, clip) for g in grads]
     grads, norm = tf.clip_by_global_norm(grads, 5.0)
     opt.apply_gradients(zip(grads, net.trainable_variables))
     return loss, norm
 while step < 100:
     x, y = next(it)
     l, n = train_one(x, y)
     step += 1
== policy gradient: episode lists
 import tensorflow as tf
 for ep in range(10):
     states, actions = play()
     with tf.GradientTape() as tape:
         loss = 0.0
         for s, a in zip(states, actions):
             p = model(s[None])
             loss -= tf.math.log(p[0, a])
     grads = tape.gradient(loss, model.trainable_variables)  # HERE
     opt.apply_gradients(zip(grads, model.trainable_variables))
== optimizer.minimize
 import tensorflow as tf
 w = tf.Variable(0.0)
 def loss():
     return (w - 3.0) ** 2
-for i in range(100):
+
+
+@tf.function
+def train_step():
     with tf.GradientTape() as tape:
         value = loss()
     w.assign_sub(0.1 * tape.gradient(value, w))  # HERE
+
+
+for i in range(100):
+    train_step()
== tape only for loss, apply elsewhere
 import tensorflow as tf
 def grads_of(x, y):
     with tf.GradientTape() as tape:
         loss = loss_fn(y, model(x))
     return tape.gradient(loss, model.trainable_variables)  # HERE
 for x, y in ds:
     opt.apply_gradients(zip(grads_of(x, y), model.trainable_variables))
== returns a Python number
 import tensorflow as tf
-def train_step(x, y):
+
+
+@tf.function
+def compiled_step(x, y):
     with tf.GradientTape() as tape:
         loss = loss_fn(y, model(x))
     grads = tape.gradient(loss, model.trainable_variables)  # HERE
     opt.apply_gradients(zip(grads, model.trainable_variables))
+    return loss
+
+
+def train_step(x, y):
+    loss = compiled_step(x, y)
     return loss.numpy()
 for x, y in ds:
     print(train_step(x, y))
== data-dependent branch
 import tensorflow as tf
 def train_step(x, y):
     with tf.GradientTape() as tape:
         loss = loss_fn(y, model(x))
     if loss > 10.0:
         return loss
     grads = tape.gradient(loss, model.trainable_variables)  # HERE
     opt.apply_gradients(zip(grads, model.trainable_variables))
     return loss
 for x, y in ds:
     train_step(x, y)
== counts its calls
 import tensorflow as tf
+
+
+@tf.function
+def train_step(self, x, y):
+    with tf.GradientTape() as tape:
+        loss = loss_fn(y, self.model(x))
+    grads = tape.gradient(loss, self.model.trainable_variables)  # HERE
+    self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
+    return loss
+
+
 class T:
     def step(self, x, y):
         self.n += 1
-        with tf.GradientTape() as tape:
-            loss = loss_fn(y, self.model(x))
-        grads = tape.gradient(loss, self.model.trainable_variables)  # HERE
-        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
+        loss = train_step(self, x, y)
         return loss
     def fit(self, ds):
         for x, y in ds:
             self.step(x, y)
== rate by step number
 import tensorflow as tf
 for step, (x, y) in enumerate(ds):
     with tf.GradientTape() as tape:
         loss = loss_fn(y, model(x)) * (step / 100)
     grads = tape.gradient(loss, model.trainable_variables)  # HERE
     opt.apply_gradients(zip(grads, model.trainable_variables))
== gradients accumulated in a list
 import tensorflow as tf
 for x, y in ds:
     with tf.GradientTape() as tape:
         loss = loss_fn(y, model(x))
     grads = tape.gradient(loss, model.trainable_variables)  # HERE
     saved.append(grads)
     opt.apply_gradients(zip(grads, model.trainable_variables))
== frozen layers are switched
 import tensorflow as tf
 for epoch in range(10):
     base.trainable = epoch > 5
     for x, y in ds:
         with tf.GradientTape() as tape:
             loss = loss_fn(y, model(x))
         grads = tape.gradient(loss, model.trainable_variables)  # HERE
         opt.apply_gradients(zip(grads, model.trainable_variables))
== custom layer that keeps Python state
 import numpy as np
 import tensorflow as tf
 class Noise(tf.keras.layers.Layer):
     def call(self, x):
         return x + np.random.normal(size=3)
 model = tf.keras.Sequential([Noise(), tf.keras.layers.Dense(1)])
 for x, y in ds:
     with tf.GradientTape() as tape:
         loss = loss_fn(y, model(x))
     grads = tape.gradient(loss, model.trainable_variables)  # HERE
     opt.apply_gradients(zip(grads, model.trainable_variables))
== a distributed step
 import tensorflow as tf
 def step(inputs):
     x, y = inputs
     with tf.GradientTape() as tape:
         loss = tf.nn.compute_average_loss(loss_fn(y, model(x)), global_batch_size=64)
     grads = tape.gradient(loss, model.trainable_variables)  # HERE
     opt.apply_gradients(zip(grads, model.trainable_variables))
     return loss
 @tf.function
 def distributed(inputs):
     return strategy.run(step, args=(inputs,))
 for batch in ds:
     distributed(batch)
== in a with block and try
 import tensorflow as tf
 with strategy.scope():
-    for x, y in ds:
+
+    @tf.function
+    def train_step(x, y):
         with tf.GradientTape() as tape:
             loss = loss_fn(y, model(x))
         grads = tape.gradient(loss, model.trainable_variables)  # HERE
         opt.apply_gradients(zip(grads, model.trainable_variables))
+
+    for x, y in ds:
+        train_step(x, y)
== a hidden state carried over
 import tensorflow as tf
 h = tf.zeros((4, 8))
-for x, y in ds:
+
+
+@tf.function
+def train_step(h, x, y):
     with tf.GradientTape() as tape:
         p, h = cell(x, h)
         loss = loss_fn(y, p)
     grads = tape.gradient(loss, cell.trainable_variables)  # HERE
     opt.apply_gradients(zip(grads, cell.trainable_variables))
+    return h
+
+
+for x, y in ds:
+    h = train_step(h, x, y)
== persistent tape deleted
 import tensorflow as tf
 for x, y in ds:
     with tf.GradientTape(persistent=True) as tape:
         loss = loss_fn(y, model(x))
     grads = tape.gradient(loss, model.trainable_variables)  # HERE
     opt.apply_gradients(zip(grads, model.trainable_variables))
     del tape
== schedule as a Python call
 import tensorflow as tf
 def lr_at(step):
     return 0.1 / (1 + step)
-def train_step(x, y, step):
-    opt.learning_rate = lr_at(step)
+
+
+@tf.function
+def compiled_step(x, y):
     with tf.GradientTape() as tape:
         loss = loss_fn(y, model(x))
     grads = tape.gradient(loss, model.trainable_variables)  # HERE
     opt.apply_gradients(zip(grads, model.trainable_variables))
+
+
+def train_step(x, y, step):
+    opt.learning_rate = lr_at(step)
+    compiled_step(x, y)
 for n, (x, y) in enumerate(ds):
     train_step(x, y, n)
== semicolons and one line
 import tensorflow as tf
 for x, y in ds:
     with tf.GradientTape() as t: loss = loss_fn(y, model(x))
     opt.apply_gradients(zip(t.gradient(loss, model.trainable_variables), model.trainable_variables)); n += 1  # HERE
== a loop in a nested function
 import tensorflow as tf
 def main():
     model = build()
     def epoch(ds):
         for x, y in ds:
             with tf.GradientTape() as tape:
                 loss = loss_fn(y, model(x))
             grads = tape.gradient(loss, model.trainable_variables)  # HERE
             opt.apply_gradients(zip(grads, model.trainable_variables))
     epoch(data)
== under the guard of a script
 import tensorflow as tf
 if __name__ == "__main__":
-    for x, y in ds:
+
+    @tf.function
+    def train_step(x, y):
         with tf.GradientTape() as tape:
             loss = loss_fn(y, model(x))  # one value
         grads = tape.gradient(loss, model.trainable_variables)  # HERE
         opt.apply_gradients(zip(grads, model.trainable_variables))
+        return loss
+
+    for x, y in ds:
+        loss = train_step(x, y)
     print("done", float(loss))
== a text over several lines
 import tensorflow as tf
 for x, y in ds:
     with tf.GradientTape() as tape:
         loss = loss_fn(y, model(x), name="""
         long""")
     grads = tape.gradient(loss, model.trainable_variables)  # HERE
     opt.apply_gradients(zip(grads, model.trainable_variables))
== written under another name
 import tensorflow
-for x, y in ds:
+
+
+@tensorflow.function
+def train_step(x, y):
 	with tensorflow.GradientTape() as tape:
 		loss = loss_fn(y, model(x))
 	grads = tape.gradient(loss, model.trainable_variables)  # HERE
 	opt.apply_gradients(zip(grads, model.trainable_variables))
+
+
+for x, y in ds:
+	train_step(x, y)
== tensorflow imported within
 def main():
     import tensorflow as tf
     for x, y in ds:
         with tf.GradientTape() as tape:
             loss = loss_fn(y, model(x))
         grads = tape.gradient(loss, model.trainable_variables)  # HERE
         opt.apply_gradients(zip(grads, model.trainable_variables))
''')  # noqa: E101


@pytest.mark.parametrize("name", CASES)
def test_edit(name: str) -> None:
    assert_edit(CASES[name], compiled_steps.compiled_step)
