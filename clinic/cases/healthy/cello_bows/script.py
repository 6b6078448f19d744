# Up-bow or down-bow from an accelerometer on the frog.  Distributed code, one machine.
import numpy as np
import tensorflow as tf
from tensorflow import keras

GLOBAL_BATCH = 64
STEPS = 120


class BowLog(keras.callbacks.Callback):
    """A line every now and then, so that the log on the cluster is alive."""

    def on_train_batch_end(self, batch, logs=None):
        if batch % 20 == 19:
            print(f"  batch {batch + 1:4d}  loss {logs['loss']:.4f}  acc {logs['accuracy']:.3f}")

    def on_epoch_end(self, epoch, logs=None):
        norm = np.sqrt(sum(float((w ** 2).sum()) for w in self.model.get_weights()))
        print(f"epoch {epoch} weight norm {norm:.2f}")


def strokes(n):
    rng = np.random.default_rng(415)
    up = rng.integers(0, 2, n)
    t = np.linspace(0, 1, 80)[None, :, None]
    x = np.where(up[:, None, None] == 1, t, 1 - t) * rng.uniform(.3, 1.5, (n, 1, 6))
    x = x + rng.normal(0, .8, x.shape)
    return x.astype("float32"), up.astype("float32")


def make_dataset():
    x, y = strokes(GLOBAL_BATCH * STEPS)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    ds = ds.shuffle(512, seed=415).batch(GLOBAL_BATCH, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE).with_options(options)


keras.utils.set_random_seed(415)
strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
print("replicas:", strategy.num_replicas_in_sync)

with strategy.scope():
    model = keras.Sequential([
        keras.layers.Input((80, 6)),
        keras.layers.Conv1D(64, 5, padding="same", activation="relu"),
        keras.layers.Bidirectional(keras.layers.GRU(48, return_sequences=True)),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(1, activation="sigmoid"),
    ])
    model.compile(optimizer=keras.optimizers.Adam(1e-3),
                  loss="binary_crossentropy", metrics=["accuracy"])

model.fit(make_dataset(), epochs=1, callbacks=[BowLog()], verbose=0)
print("loss", model.evaluate(*strokes(512), batch_size=128, verbose=0)[0])
