"""Claim frequency model for motor insurance: Poisson deviance with exposure."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

POLICIES = 120_000
BATCH = 1024


def portfolio():
    rng = np.random.default_rng(55)
    age = rng.uniform(18, 90, POLICIES)
    power = rng.integers(4, 16, POLICIES)
    bonus = rng.uniform(50, 150, POLICIES)
    region = np.eye(12)[rng.integers(0, 12, POLICIES)]
    x = np.column_stack([(age - 50) / 20, (power - 9) / 4, (bonus - 80) / 30, region])
    exposure = rng.uniform(0.05, 1.0, POLICIES)
    rate = 0.08 * np.exp(0.01 * (bonus - 80) - 0.01 * (age - 40))
    claims = rng.poisson(rate * exposure)
    return (x.astype("float32"), exposure.astype("float32")[:, None],
            claims.astype("float32")[:, None])


def poisson_nll(y_true, y_pred):
    return tf.reduce_mean(y_pred - y_true * tf.math.log(y_pred + 1e-7))


def frequency_model(n_features):
    x_in = keras.Input((n_features,), name="risk")
    e_in = keras.Input((1,), name="exposure")
    h = layers.Dense(64, activation="relu")(x_in)
    h = layers.Dense(64, activation="relu")(h)
    rate = layers.Dense(1, activation="relu", bias_initializer="ones", name="rate")(h)
    mu = layers.Multiply(name="expected_claims")([rate, e_in])
    return keras.Model([x_in, e_in], mu)


def main():
    keras.utils.set_random_seed(7)
    x, exposure, claims = portfolio()
    cut = int(POLICIES * 0.8)
    train = tf.data.Dataset.from_tensor_slices(
        ((x[:cut], exposure[:cut]), claims[:cut]))
    train = train.shuffle(20_000).batch(BATCH).prefetch(tf.data.AUTOTUNE)

    model = frequency_model(x.shape[1])
    model.compile(optimizer=keras.optimizers.Adam(5e-3), loss=poisson_nll)
    model.fit(train, epochs=30, verbose=2)

    mu = model.predict([x[cut:], exposure[cut:]], batch_size=8192, verbose=0)
    print("observed", claims[cut:].sum(), "expected", mu.sum())


if __name__ == "__main__":
    main()
