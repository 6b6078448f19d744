"""Household survey: monthly spending by category from 180 answers of a family."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

CATEGORIES = ["rent", "food", "transport", "school", "health", "leisure"]


def answer_codes(n, questions, rng):
    """Answers arrive as letters; each letter has its number."""
    letters = np.array(list("abcde"))
    table = {letter: value for value, letter in enumerate("abcde")}
    codes = np.array([table[letter] for letter in letters[rng.integers(0, 5, 5000)]], "float32")
    return codes[rng.integers(0, len(codes), (n, questions))] / 2.0 - 1.0


def survey(n=10000, questions=180, seed=77):
    rng = np.random.default_rng(seed)
    x = answer_codes(n, questions, rng).astype("float32")
    w = rng.normal(size=(questions, len(CATEGORIES))).astype("float32") * 0.1
    return x, np.tanh(x @ w).astype("float32")


class BudgetNet(keras.Model):
    def __init__(self, width=1024, depth=4):
        super().__init__()
        self.hidden = [layers.Dense(width, activation="relu") for _ in range(depth)]
        self.out = layers.Dense(len(CATEGORIES))

    def call(self, x):
        for layer in self.hidden:
            x = layer(x)
        return self.out(x)


def main(epochs=4, batch=1024):
    keras.utils.set_random_seed(77)
    x, y = survey()
    net = BudgetNet()
    net(x[:2])
    opt = keras.optimizers.SGD(0.05)
    opt.build(net.trainable_variables)

    @tf.function
    def step(xb, yb):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(xb) - yb))
        opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables),
                                net.trainable_variables))
        return loss

    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(4096).batch(batch).prefetch(2)
    began = time.perf_counter()
    done = 0
    for epoch in range(epochs):
        losses = []
        for xb, yb in data:
            losses.append(step(xb, yb))
            done += int(xb.shape[0])
        print(f"epoch {epoch + 1}: mse {np.mean([l.numpy() for l in losses]):.4f}")
    seconds = time.perf_counter() - began

    for start in range(0, 60, 20):
        guess = net.predict(x[start:start + 20], verbose=0)
        error = np.abs(guess - y[start:start + 20]).mean(0)
        print({c: round(float(e), 3) for c, e in zip(CATEGORIES, error)})
    print("WORK", done)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
