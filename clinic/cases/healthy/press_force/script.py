"""Surrogate of a forging press: a wide residual MLP from process settings to force curves."""
import numpy as np
import keras


def simulate_press(n, rng):
    settings = rng.uniform(-1, 1, (n, 64)).astype("float32")
    mix = rng.normal(size=(64, 128)).astype("float32") / 8
    return settings, np.tanh(settings @ mix) + 0.01 * rng.normal(size=(n, 128)).astype("float32")


def surrogate(width=768, blocks=3):
    x = inp = keras.Input((64,))
    x = keras.layers.Dense(width)(x)
    for _ in range(blocks):
        h = keras.layers.Dense(width, activation="relu")(x)
        x = keras.layers.Add()([x, keras.layers.Dense(width)(h)])
    return keras.Model(inp, keras.layers.Dense(128)(x))


def main():
    keras.utils.set_random_seed(0)
    x, y = simulate_press(16384, np.random.default_rng(0))
    model = surrogate()
    model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), loss="mse")
    model.fit(x, y, batch_size=512, epochs=3, verbose=2)


if __name__ == "__main__":
    main()
