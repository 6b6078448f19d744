"""Storm surge at one gauge from 44 hourly forcings, scheduled sampling of its own output."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(59)
rng = np.random.default_rng(59)

HOURS, UNITS, BATCH = 44, 24, 32

wind = np.cumsum(rng.normal(0, 0.2, (512, HOURS, 3)), axis=1).astype("float32")
surge = np.zeros((512, HOURS), np.float32)
for t in range(1, HOURS):
    surge[:, t] = 0.9 * surge[:, t - 1] + 0.05 * wind[:, t, 0]


class SurgeModel(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.lower = tf.keras.layers.GRUCell(UNITS)
        self.upper = tf.keras.layers.GRUCell(UNITS)
        self.head = tf.keras.layers.Dense(1)

    def call(self, inputs, training=False):
        forcing, truth = inputs
        zeros = tf.zeros((tf.shape(forcing)[0], UNITS))
        s1, s2 = zeros, zeros
        last = truth[:, :1]
        outputs = []
        for t in range(HOURS):
            x = tf.concat([forcing[:, t], last], axis=-1)
            h, s1 = self.lower(x, s1)
            h, s2 = self.upper(h, s2)
            out = self.head(h)
            outputs.append(out)
            keep = tf.cast(tf.random.uniform(tf.shape(out)) < 0.5, tf.float32)
            last = keep * truth[:, t:t + 1] + (1.0 - keep) * out
        return tf.concat(outputs, axis=1)


model = SurgeModel()
optimizer = tf.keras.optimizers.Adam(2e-3)


@tf.function
def train_step(forcing, truth):
    with tf.GradientTape() as tape:
        pred = model((forcing, truth), training=True)
        loss = tf.reduce_mean(tf.square(pred - truth))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


data = tf.data.Dataset.from_tensor_slices((wind, surge)).shuffle(512, seed=1)
data = data.batch(BATCH, drop_remainder=True).prefetch(2)

for epoch in range(5):
    begin = time.time()
    losses = []
    for forcing, truth in data:
        losses.append(train_step(forcing, truth))
    print(f"epoch {epoch} loss {float(tf.reduce_mean(losses)):.4f} took {time.time() - begin:.1f}s")
