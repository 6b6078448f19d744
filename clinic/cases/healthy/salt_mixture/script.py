"""Conductivity of salt mixtures: wide batches of table rows, custom train_step with mixup."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(137)
rng = np.random.default_rng(137)

ROWS, SALTS, BATCH = 60000, 32, 2048
share = rng.dirichlet(np.ones(SALTS), ROWS).astype("float32")
inter = rng.normal(0, 1, (SALTS, SALTS)).astype("float32")
cond = np.einsum("ni,ij,nj->n", share, inter, share).astype("float32")
cond = (cond - cond.mean()) / cond.std()


class Mixup(tf.keras.Model):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.tracker = tf.keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.tracker]

    def call(self, x, training=False):
        return self.net(x, training=training)

    def train_step(self, data):
        x, y = data
        lam = tf.random.uniform((tf.shape(x)[0], 1), 0.8, 1.0)
        x2, y2 = tf.reverse(x, [0]), tf.reverse(y, [0])
        x = lam * x + (1 - lam) * x2
        y = lam[:, 0] * y + (1 - lam[:, 0]) * y2
        with tf.GradientTape() as tape:
            pred = self(x, training=True)[:, 0]
            loss = tf.reduce_mean(tf.square(pred - y))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


net = tf.keras.Sequential([
    tf.keras.layers.Input((SALTS,)),
    tf.keras.layers.Dense(384, activation="swish"),
    tf.keras.layers.Dense(384, activation="swish"),
    tf.keras.layers.Dense(384, activation="swish"),
    tf.keras.layers.Dense(1),
])
data = tf.data.Dataset.from_tensor_slices((share, cond)).batch(BATCH, drop_remainder=True)
data = data.cache().shuffle(32, seed=1).prefetch(2)
model = Mixup(net)
model.compile(optimizer=tf.keras.optimizers.Adam(1e-3))
model.fit(data, epochs=8, verbose=2)
