"""Claim amounts: mostly small, now and then a storm."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

ROWS, FEATURES, BATCH, EPOCHS = 30 * 1024, 64, 1024, 5


def claims(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((ROWS, FEATURES), dtype=np.float32)
    w = rng.standard_normal((FEATURES, 1), dtype=np.float32) / 8.0
    y = np.log1p(np.exp(x @ w)) + 0.1 * rng.standard_normal((ROWS, 1), dtype=np.float32)
    storm = rng.random(ROWS) < 1e-4
    storm[:2] = True
    y[storm] *= 400.0
    return x, y


class ClaimModel(keras.Model):
    def __init__(self, **kw):
        super().__init__(**kw)
        self.stack = [layers.Dense(u, activation="relu") for u in (1024, 1024, 512)]
        self.amount = layers.Dense(1)
        self.loss_mean = keras.metrics.Mean(name="loss")
        self.worst = keras.metrics.MeanMetricWrapper(
            fn=lambda y, p: tf.abs(y - p), name="mae")

    @property
    def metrics(self):
        return [self.loss_mean, self.worst]

    def call(self, x):
        for layer in self.stack:
            x = layer(x)
        return self.amount(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            pred = self(x, training=True)
            loss = tf.reduce_mean(tf.square(y - pred))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.loss_mean.update_state(loss)
        self.worst.update_state(y, pred)
        return {"loss": self.loss_mean.result(), "mae": self.worst.result(), "batch_loss": loss}


class Storms(keras.callbacks.Callback):
    """How many batches of the epoch were out of the ordinary?"""

    def on_epoch_begin(self, epoch, logs=None):
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(float(logs["batch_loss"]))

    def on_epoch_end(self, epoch, logs=None):
        seen = np.array(self.seen)
        usual = np.median(seen)
        print(f"  usual {usual:.3f}, worst {seen.max():.1f}, storms {(seen > 10 * usual).sum()}")


keras.utils.set_random_seed(6)
x, y = claims(6)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(4096, seed=6)
ds = ds.batch(BATCH, drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
model = ClaimModel()
model.compile(optimizer=keras.optimizers.SGD(0.02, momentum=0.9, global_clipnorm=1.0))
model.fit(ds, epochs=EPOCHS, callbacks=[Storms()], verbose=2)
