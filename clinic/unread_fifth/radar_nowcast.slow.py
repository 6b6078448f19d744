import pathlib
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

keras.mixed_precision.set_global_policy("mixed_float16")

IN_FRAMES, OUT_FRAMES, SIDE = 6, 6, 128
RUN_DIR = pathlib.Path("runs") / time.strftime("%Y%m%d-%H%M%S")


def load_split(name):
    # uint8 reflectivity, (N, 12, 128, 128); N is 9600 for train and 800 for valid
    frames = np.load(f"dwd_radar/{name}.npy")
    frames = np.ascontiguousarray(frames.transpose(0, 2, 3, 1))
    return frames[..., :IN_FRAMES], frames[..., IN_FRAMES:]


def pipeline(x, y, training):
    with tf.device("/CPU:0"):
        ds = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        ds = ds.shuffle(1000)
    return ds.batch(32).prefetch(tf.data.AUTOTUNE)


def double_conv(x, f):
    for _ in range(2):
        x = layers.Conv2D(f, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    return x


def unet(filters=(32, 64, 128, 256)):
    inp = keras.Input((SIDE, SIDE, IN_FRAMES), dtype="uint8")
    x = layers.Rescaling(1 / 255.0)(inp)
    skips = []
    for f in filters[:-1]:
        x = double_conv(x, f)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = double_conv(x, filters[-1])
    for f, s in zip(reversed(filters[:-1]), reversed(skips)):
        x = layers.Conv2DTranspose(f, 2, strides=2, padding="same")(x)
        x = double_conv(layers.Concatenate()([x, s]), f)
    out = layers.Conv2D(OUT_FRAMES, 1, activation="sigmoid", dtype="float32")(x)
    return keras.Model(inp, out)


def weighted_mse(y_true, y_pred):
    y = tf.cast(y_true, tf.float32) / 255.0
    w = 1.0 + 4.0 * tf.cast(y > 0.35, tf.float32)
    return tf.reduce_mean(w * tf.square(y - y_pred), axis=[1, 2, 3])


class Monitor(keras.callbacks.Callback):
    """Weight distributions and a few forecasts for TensorBoard."""

    def __init__(self, x, y, log_dir):
        super().__init__()
        self.x, self.y = x, y
        self.writer = tf.summary.create_file_writer(str(log_dir))
        self.step = 0

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        forecast = self.model.predict_on_batch(self.x)
        pair = np.concatenate([self.y / 255.0, forecast], axis=1)
        with self.writer.as_default(step=self.step):
            for w in self.model.trainable_weights:
                tf.summary.histogram(w.path, w.numpy())
            for lead in range(OUT_FRAMES):
                tf.summary.image(f"lead_{lead + 1}", pair[..., lead:lead + 1], max_outputs=4)
            tf.summary.scalar("loss", logs["loss"])
        self.writer.flush()

    def on_train_end(self, logs=None):
        self.writer.close()


def main():
    x_train, y_train = load_split("train")
    x_valid, y_valid = load_split("valid")
    model = unet()
    model.compile(optimizer=keras.optimizers.Adam(4e-4), loss=weighted_mse)
    model.fit(
        pipeline(x_train, y_train, True),
        validation_data=pipeline(x_valid, y_valid, False),
        epochs=50,
        callbacks=[
            Monitor(x_valid[:4], y_valid[:4], RUN_DIR / "monitor"),
            keras.callbacks.ModelCheckpoint(RUN_DIR / "best.keras", save_best_only=True),
            keras.callbacks.CSVLogger(RUN_DIR / "log.csv"),
        ],
        verbose=2,
    )


if __name__ == "__main__":
    RUN_DIR.mkdir(parents=True)
    main()
