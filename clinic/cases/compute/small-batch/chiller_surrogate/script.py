import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import time
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models, optimizers

settings = dict(n=24000, batch=4, lr=2e-4, epochs=4, width=64)


def plant(n, rng):
    """Coefficient of performance of a chiller as a function of its operating point."""
    x = rng.uniform(0, 1, (n, 7))
    lift = 0.4 + 0.6 * x[:, 0] - 0.3 * x[:, 1]
    part = 1 - (x[:, 2] - 0.7) ** 2
    foul = 1 - 0.2 * x[:, 3] * x[:, 4]
    cop = part * foul / lift + 0.1 * np.sin(5 * x[:, 5]) * x[:, 6]
    return x.astype("float32"), cop[:, None].astype("float32")


def surrogate(width):
    m = models.Sequential([layers.Input((7,))])
    for _ in range(3):
        m.add(layers.Dense(width, activation="swish"))
    m.add(layers.Dense(1))
    return m


rng = np.random.default_rng(30)
x, y = plant(settings["n"], rng)
x_test, y_test = plant(2000, rng)
model = surrogate(settings["width"])
opt = optimizers.Adam(settings["lr"])
opt.build(model.trainable_variables)
ds = (tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(settings["n"], seed=2)
      .batch(settings["batch"], drop_remainder=True).prefetch(16))


@tf.function
def one_epoch():
    total, count = 0.0, 0.0
    for bx, by in ds:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(bx, training=True) - by))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        total += loss
        count += 1.0
    return total / count


start = time.perf_counter()
for e in range(settings["epochs"]):
    print("epoch", e, "train mse", one_epoch().numpy())
stop = time.perf_counter()
rmse = float(tf.sqrt(tf.reduce_mean((model(x_test) - y_test) ** 2)))
print("test rmse %.4f" % rmse)
print("WORK", settings["n"] * settings["epochs"])
print("TRAIN_SECONDS %.3f" % (stop - start))
