"""Rainfall-runoff model: trained on all CAMELS basins, then tuned on one."""
import sys

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

DAYS = 270
N_FORCING = 5
N_STATIC = 27


def load(path):
    # forcing (n, 270, 5) float32, static (n, 27) float32, discharge (n,) float32
    with np.load(path) as f:
        return (f["forcing"], f["static"]), f["discharge"]


def to_dataset(inputs, target, batch, training=True):
    with tf.device("/CPU:0"):
        ds = tf.data.Dataset.from_tensor_slices((inputs, target))
    if training:
        ds = ds.shuffle(8192)
    return ds.batch(batch).prefetch(tf.data.AUTOTUNE)


def build(units=256):
    forcing = keras.Input((DAYS, N_FORCING), name="forcing")
    static = keras.Input((N_STATIC,), name="static")
    s = layers.Dense(32, activation="tanh")(static)
    s = layers.RepeatVector(DAYS)(s)
    x = layers.Concatenate()([forcing, s])
    x = layers.GRU(units, return_sequences=True, name="gru_1")(x)
    x = layers.Dropout(0.2)(x)
    x = layers.GRU(units // 2, name="gru_2")(x)
    x = layers.Dropout(0.4)(x)
    q = layers.Dense(1, name="discharge")(x)
    return keras.Model([forcing, static], q)


@keras.saving.register_keras_serializable("hydro")
class NSE(keras.metrics.Metric):
    def __init__(self, name="nse", **kw):
        super().__init__(name=name, **kw)
        self.sse = self.add_weight(name="sse", initializer="zeros")
        self.sy = self.add_weight(name="sy", initializer="zeros")
        self.syy = self.add_weight(name="syy", initializer="zeros")
        self.n = self.add_weight(name="n", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        y = tf.reshape(tf.cast(y_true, tf.float32), [-1])
        p = tf.reshape(y_pred, [-1])
        self.sse.assign_add(tf.reduce_sum(tf.square(y - p)))
        self.sy.assign_add(tf.reduce_sum(y))
        self.syy.assign_add(tf.reduce_sum(tf.square(y)))
        self.n.assign_add(tf.cast(tf.size(y), tf.float32))

    def result(self):
        var = self.syy - tf.square(self.sy) / tf.maximum(self.n, 1.0)
        return 1.0 - self.sse / tf.maximum(var, 1e-6)


def pretrain(model):
    train = to_dataset(*load("camels/all_train.npz"), batch=512)   # 400k samples
    valid = to_dataset(*load("camels/all_valid.npz"), batch=1024, training=False)
    model.compile(keras.optimizers.Adam(1e-3, clipnorm=1.0), "mse", metrics=[NSE()])
    model.fit(train, validation_data=valid, epochs=25, verbose=2, callbacks=[
        keras.callbacks.ReduceLROnPlateau(factor=0.5, patience=2),
        keras.callbacks.ModelCheckpoint("streamflow_all.keras", save_best_only=True),
    ])


def finetune(model, basin):
    train = to_dataset(*load(f"camels/{basin}_train.npz"), batch=256)
    valid = to_dataset(*load(f"camels/{basin}_valid.npz"), batch=1024, training=False)
    model.get_layer("gru_1").trainable = False
    model.compile(keras.optimizers.Adam(1e-4, clipnorm=1.0), "mse", metrics=[NSE()])
    model.fit(train, validation_data=valid, epochs=30, verbose=2, callbacks=[
        keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True),
    ])
    model.save(f"streamflow_{basin}.keras")


if __name__ == "__main__":
    basin = sys.argv[1] if len(sys.argv) > 1 else "01547700"
    net = build()
    pretrain(net)
    finetune(net, basin)
