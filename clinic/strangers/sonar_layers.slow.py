"""Rock or mine from sonar pings; noise is turned up a little in every epoch."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(83)
rng = np.random.default_rng(83)

BANDS, EPOCHS = 60, 24
pings = rng.uniform(0, 1, (768, BANDS)).astype("float32")
mine = (pings[:, 10:20].mean(1) > pings[:, 30:40].mean(1)).astype("float32")


def roughen(ping, label):
    noise = tf.random.normal([BANDS], stddev=0.01)
    gain = tf.random.uniform([], 0.98, 1.02)
    shift = tf.random.uniform([], -1, 2, dtype=tf.int32)
    return tf.roll(ping, shift, axis=0) * gain + noise, label


def build():
    model = tf.keras.Sequential([
        tf.keras.layers.Input((BANDS,)),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(1),
    ])
    model.compile(
        optimizer=tf.keras.optimizers.Adam(1e-3),
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0)],
    )
    return model


model = build()
dataset = tf.data.Dataset.from_tensor_slices((pings, mine)).cache()
log = []

for epoch in range(EPOCHS):
    dataset = dataset.map(roughen, num_parallel_calls=tf.data.AUTOTUNE)
    batches = dataset.shuffle(768, seed=epoch).batch(32).prefetch(2)
    history = model.fit(batches, initial_epoch=epoch, epochs=epoch + 1, verbose=2)
    log.append(history.history["loss"][0])

print("loss first", log[0], "last", log[-1])
