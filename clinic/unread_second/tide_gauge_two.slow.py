import keras
import numpy as np
import tensorflow as tf
from keras import layers

LOOKBACK = 72
HOURS = 24 * 700


def sea_level(hours=HOURS):
    t = np.arange(hours)
    periods = (12.42, 12.0, 23.93, 25.82)
    level = sum(np.cos(2 * np.pi * t / p + i) / (i + 1) for i, p in enumerate(periods))
    surge = np.convolve(np.random.default_rng(0).normal(size=hours), np.ones(36) / 36, "same")
    return (level + surge).astype("float32")


def training_set(series):
    windows = np.lib.stride_tricks.sliding_window_view(series[:-1], LOOKBACK)[..., None]
    ds = tf.data.Dataset.from_tensor_slices((windows, series[LOOKBACK:]))
    return ds.shuffle(4096, seed=1).batch(256, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def build():
    return keras.Sequential([
        keras.Input((LOOKBACK, 1)),
        layers.Conv1D(32, 5, activation="relu"),
        layers.MaxPooling1D(2),
        layers.Conv1D(64, 5, activation="relu"),
        layers.Flatten(),
        layers.Dense(64, activation="relu"),
        layers.Dense(1),
    ])


class OneHourAheadScore(keras.callbacks.Callback):
    """Skill of the next-hour forecast on the held-out weeks."""

    def __init__(self, series):
        super().__init__()
        self.series = series
        self.persistence = np.mean((series[LOOKBACK:] - series[LOOKBACK - 1:-1]) ** 2)

    def on_epoch_end(self, epoch, logs=None):
        forecast = []
        for i in range(len(self.series) - LOOKBACK):
            window = self.series[i:i + LOOKBACK].reshape(1, LOOKBACK, 1)
            forecast.append(self.model.predict(window, verbose=0)[0, 0])
        forecast = np.array(forecast)
        mse = np.mean((forecast - self.series[LOOKBACK:]) ** 2)
        print(f"epoch {epoch + 1}: skill {1 - mse / self.persistence:.3f}")


def main():
    series = sea_level()
    series = (series - series.mean()) / series.std()
    held_out = 24 * 60
    train, test = series[:-held_out], series[-held_out:]
    model = build()
    model.compile("adam", loss="mse")
    model.fit(training_set(train), epochs=6, verbose=2, callbacks=[OneHourAheadScore(test)])


if __name__ == "__main__":
    main()
