import numpy as np
import tensorflow as tf
import keras
from keras import layers

EPOCHS = 120
BATCH = 1024


def customers(n=150_000, d=48, seed=31):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d), dtype=np.float32)
    treated = (rng.random(n) < 0.4).astype(np.float32)
    base = 1 / (1 + np.exp(-(x[:, 0] - 0.5 * x[:, 1] - 1.5)))
    lift = 0.15 * (x[:, 2] > 0) * treated
    bought = (rng.random(n) < np.clip(base + lift, 0, 1)).astype(np.float32)
    return x, treated, bought


class DragonNet(keras.Model):
    """Shared trunk, two outcome heads and a propensity head."""

    def __init__(self, width=200):
        super().__init__()
        self.trunk = [layers.Dense(width, activation="elu") for _ in range(3)]
        self.head0 = keras.Sequential([layers.Dense(100, activation="elu"), layers.Dense(1)])
        self.head1 = keras.Sequential([layers.Dense(100, activation="elu"), layers.Dense(1)])
        self.propensity = layers.Dense(1)

    def call(self, x):
        for layer in self.trunk:
            x = layer(x)
        return (tf.squeeze(self.head0(x), -1),
                tf.squeeze(self.head1(x), -1),
                tf.squeeze(self.propensity(x), -1))


def bce(labels, logits):
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


def make_step(model, optimizer, alpha, metric):
    @tf.function
    def step(x, t, y):
        with tf.GradientTape() as tape:
            y0, y1, g = model(x)
            outcome = tf.reduce_mean((1.0 - t) * bce(y, y0) + t * bce(y, y1))
            loss = outcome + alpha * tf.reduce_mean(bce(t, g))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        metric.update_state(outcome)

    return step


def make_eval(model):
    @tf.function
    def uplift(x):
        y0, y1, _ = model(x)
        return tf.sigmoid(y1) - tf.sigmoid(y0)

    return uplift


def alpha_at(epoch):
    return 1.0 * 0.97 ** epoch


x, t, y = customers()
n_val = 10_000
ds = (tf.data.Dataset.from_tensor_slices((x[n_val:], t[n_val:], y[n_val:]))
      .batch(BATCH, drop_remainder=True)
      .cache()
      .shuffle(200)
      .prefetch(tf.data.AUTOTUNE))
x_val = tf.constant(x[:n_val])

model = DragonNet()
model(x_val[:2])
optimizer = keras.optimizers.Adam(3e-4)
optimizer.build(model.trainable_variables)
outcome_loss = keras.metrics.Mean()
uplift = make_eval(model)

for epoch in range(EPOCHS):
    outcome_loss.reset_state()
    train_step = make_step(model, optimizer, alpha_at(epoch), outcome_loss)
    for xb, tb, yb in ds:
        train_step(xb, tb, yb)
    if epoch % 10 == 9:
        u = uplift(x_val).numpy()
        top = u >= np.quantile(u, 0.8)
        tv, yv = t[:n_val][top], y[:n_val][top]
        gain = yv[tv == 1].mean() - yv[tv == 0].mean()
        print(f"epoch {epoch + 1} outcome {float(outcome_loss.result()):.4f} top-20% gain {gain:.3f}")

model.save_weights("dragonnet.weights.h5")
