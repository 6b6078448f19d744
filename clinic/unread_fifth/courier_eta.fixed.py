# ETA for courier deliveries. Events are replayed in time order, one pass per month of
# logs, with a robust loss whose threshold follows the error distribution.
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

BATCH = 512
MONTHS = 6
PER_MONTH = 400_000
QUANTILE = 0.9
N_ZONES = 300
WINDOW = 16 * BATCH

rng = np.random.default_rng(17)


def month_of_orders(month):
    n = PER_MONTH
    zone_from = rng.integers(0, N_ZONES, n, dtype=np.int32)
    zone_to = rng.integers(0, N_ZONES, n, dtype=np.int32)
    km = rng.gamma(2.0, 2.5, n).astype("float32")
    hour = rng.integers(8, 23, n).astype("float32")
    parcels = rng.poisson(1.6, n).astype("float32")
    rain = (rng.random(n) < 0.2).astype("float32")
    eta = 6 + 3.1 * km + 4 * rain * np.sqrt(km) + 5 * np.exp(-((hour - 18) ** 2) / 8)
    eta = eta + 0.4 * month + rng.standard_t(2.5, n) * 3
    dense = np.stack([km / 5, (hour - 15) / 5, parcels / 2, rain], axis=1)
    return (zone_from, zone_to, dense), eta.astype("float32")


zf = layers.Input((), dtype="int32")
zt = layers.Input((), dtype="int32")
xd = layers.Input((4,))
emb = layers.Embedding(N_ZONES, 16)
h = layers.Concatenate()([emb(zf), emb(zt), xd])
for u in (256, 256, 128):
    h = layers.Dense(u, activation="relu")(h)
model = keras.Model([zf, zt, xd], layers.Dense(1, bias_initializer=keras.initializers.Constant(20.0))(h))

optimizer = keras.optimizers.Adam(1e-3)
mae = keras.metrics.MeanAbsoluteError()


@tf.function
def train_step(inputs, eta, delta):
    with tf.GradientTape() as tape:
        pred = tf.squeeze(model(list(inputs), training=True), -1)
        err = tf.abs(eta - pred)
        quad = tf.minimum(err, delta)
        loss = tf.reduce_mean(0.5 * quad ** 2 + delta * (err - quad))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    mae.update_state(eta, pred)
    return err


def quantile(values, q):
    ordered = tf.sort(values)
    return ordered[int(q * (ordered.shape[0] - 1))]


residuals = tf.fill([BATCH], 10.0)
for month in range(MONTHS):
    inputs, eta = month_of_orders(month)
    ds = (
        tf.data.Dataset.from_tensor_slices((inputs, eta))
        .batch(BATCH, drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    mae.reset_state()
    for xb, yb in ds:
        delta = quantile(residuals, QUANTILE)
        err = train_step(xb, yb, delta)
        residuals = tf.concat([residuals, err], axis=0)[-WINDOW:]
    print(f"month {month + 1}: MAE {float(mae.result()):.2f} min, delta {float(delta):.2f}")

model.save("courier_eta.keras")
