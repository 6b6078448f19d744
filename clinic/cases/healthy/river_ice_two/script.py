"""River ice masks: subclassed model with own train_step, tf.data with a numpy_function for the crop offsets."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers


class IceModel(keras.Model):
    def __init__(self, width=40):
        super().__init__()
        self.body = [layers.Conv2D(width, 3, padding="same", activation="relu", dilation_rate=1 + i % 2) for i in range(4)]
        self.last = layers.Conv2D(1, 1)
        self.loss_mean = keras.metrics.Mean(name="loss")
        self.dice = keras.metrics.Mean(name="dice")

    @property
    def metrics(self):
        return [self.loss_mean, self.dice]

    def call(self, x):
        for layer in self.body:
            x = layer(x)
        return self.last(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            logits = self(x)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(grads, self.trainable_variables)
        p = tf.sigmoid(logits)
        self.loss_mean.update_state(loss)
        self.dice.update_state(2 * tf.reduce_sum(p * y) / (tf.reduce_sum(p + y) + 1e-6))
        return {m.name: m.result() for m in self.metrics}


class EpochNote(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        bias = self.model.last.bias.numpy()
        print(f"  epoch {epoch}: output bias {float(bias[0]):+.4f} dice {logs['dice']:.3f}")


def offsets(seed):
    rng = np.random.default_rng(int(seed))
    return rng.integers(0, 16, 2).astype("int32")


def scenes(images, masks, batch):
    def crop(i, image, mask):
        off = tf.numpy_function(offsets, [i], tf.int32, stateful=False)
        off.set_shape((2,))
        both = tf.concat([image, mask], -1)
        both = tf.slice(both, [off[0], off[1], 0], [64, 64, 4])
        return both[..., :3], both[..., 3:]
    ds = tf.data.Dataset.from_tensor_slices((np.arange(len(images)), images, masks))
    return ds.shuffle(len(images)).map(crop, num_parallel_calls=2).batch(batch).prefetch(tf.data.AUTOTUNE)


rng = np.random.default_rng(5)
masks = (np.kron(rng.normal(size=(96, 10, 10)), np.ones((1, 8, 8))) > 0.2).astype("float32")[..., None]
images = (masks * 0.4 + rng.normal(0.3, 0.1, (96, 80, 80, 3))).astype("float32")
model = IceModel()
model.compile(optimizer=keras.optimizers.Adam(2e-3))
start = time.perf_counter()
model.fit(scenes(images, masks, 16), epochs=3, callbacks=[EpochNote()], verbose=2)
spent = time.perf_counter() - start
print("WORK", 96 * 3)
print("TRAIN_SECONDS %.2f" % spent)
