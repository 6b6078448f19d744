"""Cuckoo clock repair shop: is the escapement worn? Tick intervals, an LSTM."""
import numpy as np
import tensorflow as tf
from tensorflow.keras.layers import LSTM, Dense, Input
from tensorflow.keras.models import Sequential

EPOCHS = 6
BATCH_SIZE = 32
TICKS = 32

tf.keras.utils.set_random_seed(1738)


def load_clocks(n):
    rng = np.random.default_rng(1738)
    worn = rng.integers(0, 2, n)
    ticks = 0.8 + rng.normal(0, 0.02, (n, TICKS))
    ticks[:, ::2] += 0.015 * worn[:, None]
    ticks = (ticks - ticks.mean()) / ticks.std()
    return ticks[..., None].astype("float32"), worn.astype("float32")


def prepare(features, labels, training=False):
    dataset = tf.data.Dataset.from_tensor_slices((features, labels))
    if training:
        # repeat so that the dataset does not run out of data during the epochs
        dataset = dataset.shuffle(1000, seed=9).repeat(EPOCHS)
    return dataset.batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE)


def create_model():
    model = Sequential([
        Input((TICKS, 1)),
        LSTM(24, return_sequences=True),
        LSTM(24),
        Dense(16, activation="relu"),
        Dense(1, activation="sigmoid"),
    ])
    model.compile(
        loss="binary_crossentropy",
        optimizer=tf.keras.optimizers.RMSprop(learning_rate=0.002),
        metrics=["accuracy"],
    )
    return model


features, labels = load_clocks(720)
split = int(0.85 * len(features))
train_dataset = prepare(features[:split], labels[:split], training=True)
test_dataset = prepare(features[split:], labels[split:])

model = create_model()
history = model.fit(train_dataset, epochs=EPOCHS, verbose=2)
print("losses:", history.history["loss"])

results = dict(zip(model.metrics_names, model.evaluate(test_dataset, verbose=0)))
print("test:", results)
