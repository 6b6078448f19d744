"""Walk-forward training of a volatility forecaster: train on a window, score on the next, move on."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

LOOKBACK, ASSETS, WINDOW, HORIZON, BATCH = 40, 12, 2400, 300, 100
FOLDS, PASSES = 12, 2


def garch_returns(days, assets, seed):
    rng = np.random.default_rng(seed)
    shocks = rng.standard_normal((days, assets))
    variance = np.ones(assets)
    returns = np.empty((days, assets), np.float32)
    for d in range(days):
        returns[d] = np.sqrt(variance) * shocks[d]
        variance = 0.05 + 0.1 * returns[d] ** 2 + 0.85 * variance
    return returns


def frames(returns):
    view = np.lib.stride_tricks.sliding_window_view(returns, LOOKBACK, axis=0)
    x = np.ascontiguousarray(view[:-5].transpose(0, 2, 1))
    ahead = np.lib.stride_tricks.sliding_window_view(returns[LOOKBACK:], 5, axis=0)
    y = np.log(ahead.std(axis=-1) + 1e-3).astype(np.float32)
    n = min(len(x), len(y))
    return x[:n], y[:n]


def forecaster():
    inp = keras.Input((LOOKBACK, ASSETS))
    h = layers.Concatenate()([inp, layers.Lambda(tf.abs)(inp)])
    for dilation in (1, 2, 4, 8):
        skip = layers.Dense(48)(h)
        c = layers.Conv1D(48, 3, dilation_rate=dilation, padding="causal", activation="relu")(h)
        h = layers.LayerNormalization()(layers.Add()([skip, c]))
    h = layers.GlobalAveragePooling1D()(h)
    return keras.Model(inp, layers.Dense(ASSETS)(layers.Dense(64, activation="relu")(h)))


def fit_window(model, optimizer, x, y, rng):
    @tf.function
    def step(xb, yb):
        with tf.GradientTape() as tape:
            error = model(xb, training=True) - yb
            loss = tf.reduce_mean(tf.square(error))
        grads = tape.gradient(loss, model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 1.0)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    n = 0
    for _ in range(PASSES):
        order = rng.permutation(len(x))
        for s in range(0, len(x), BATCH):
            rows = order[s:s + BATCH]
            loss = step(tf.constant(x[rows]), tf.constant(y[rows]))
            n += len(rows)
    return float(loss), n


def score(model, x, y):
    return float(np.mean((model(x, training=False).numpy() - y) ** 2))


def main():
    keras.utils.set_random_seed(21)
    returns = garch_returns(WINDOW + HORIZON * (FOLDS + 1) + LOOKBACK + 5, ASSETS, seed=4)
    x, y = frames(returns)
    model = forecaster()
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    rng = np.random.default_rng(9)

    seen, out_of_sample = 0, []
    start = time.perf_counter()
    for fold in range(FOLDS):
        a = fold * HORIZON
        b = a + WINDOW
        loss, n = fit_window(model, optimizer, x[a:b], y[a:b], rng)
        out_of_sample.append(score(model, x[b:b + HORIZON], y[b:b + HORIZON]))
        seen += n
        print(f"fold {fold:2d}: in-sample {loss:.4f}, next {HORIZON} days {out_of_sample[-1]:.4f}")
    seconds = time.perf_counter() - start
    print("mean out of sample %.4f" % np.mean(out_of_sample))
    print("WORK", seen)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
