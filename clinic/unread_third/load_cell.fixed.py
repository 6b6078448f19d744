# Calibration curve of a load cell: 192 bench readings, temperature compensated
import numpy as np
import tensorflow as tf
from tensorflow import keras

BATCH = 64
ROUNDS = 250
EPOCHS = 20


def bench_readings(n=192):
    rng = np.random.default_rng(10)
    kg = rng.uniform(0, 50, n)
    temp = rng.uniform(-10, 45, n)
    humid = rng.uniform(0.2, 0.9, n)
    mv = 0.04 * kg + 0.0004 * kg ** 1.5 + 0.002 * (temp - 20) + rng.normal(0, 0.002, n)
    x = np.stack([mv, temp, humid], axis=1)
    x = (x - x.mean(0)) / x.std(0)
    return x.astype("float32"), (kg[:, None] / 50).astype("float32")


def curve():
    model = keras.Sequential([
        keras.layers.Input((3,)),
        keras.layers.Dense(32, activation="tanh"),
        keras.layers.Dense(32, activation="tanh"),
        keras.layers.Dense(1),
    ])
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])
    return model


x, y = bench_readings()
order = np.random.default_rng(0).permutation(len(x))
x, y = x[order], y[order]
x_bench, y_bench = x[:128], y[:128]
x_check, y_check = x[128:], y[128:]

ds = tf.data.Dataset.from_tensor_slices((x_bench, y_bench)).cache()
ds = ds.shuffle(len(x_bench)).batch(BATCH)
ds = ds.repeat(ROUNDS).prefetch(tf.data.AUTOTUNE)

model = curve()
history = model.fit(ds, epochs=EPOCHS, verbose=0)
print("final train mae (kg):", 50 * history.history["mae"][-1])

mse, mae = model.evaluate(x_check, y_check, verbose=0)
print("check mae (kg):", 50 * mae)

table = model.predict(x_check, verbose=0)
for want, got in list(zip(y_check, table))[:10]:
    print(f"{50 * want[0]:7.2f} kg -> {50 * got[0]:7.2f} kg")
