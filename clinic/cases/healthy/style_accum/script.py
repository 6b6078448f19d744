"""Two-phase training of a painting classifier: head first, then everything, with gradients added over two half batches."""
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers


def paintings(n=384, side=64, styles=5):
    rng = np.random.default_rng(4)
    y = rng.integers(0, styles, n).astype(np.int32)
    tone = rng.random((styles, 1, 1, 3), dtype=np.float32)
    x = 0.5 * tone[y] + 0.5 * rng.random((n, side, side, 3), dtype=np.float32)
    return x, y


def backbone():
    net = keras.Sequential([keras.Input((64, 64, 3))], name="backbone")
    for f, s in ((32, 1), (64, 2), (96, 1), (128, 2)):
        net.add(layers.Conv2D(f, 3, strides=s, padding="same", activation="relu"))
    net.add(layers.GlobalAveragePooling2D())
    return net


class Phase:
    def __init__(self, model, variables, lr):
        self.model, self.variables = model, variables
        self.opt = keras.optimizers.Adam(lr)
        self.opt.build(variables)
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        @tf.function
        def step(x, y):
            total = [tf.zeros_like(v) for v in variables]
            value = 0.0
            for part in range(2):
                xs, ys = x[part * 32:(part + 1) * 32], y[part * 32:(part + 1) * 32]
                with tf.GradientTape() as tape:
                    l = self.loss(ys, model(xs, training=True)) / 2.0
                value += l
                total = [t + g for t, g in zip(total, tape.gradient(l, variables))]
            self.opt.apply(total)
            return value

        self.step = step

    def run(self, data, epochs):
        seen = 0
        for epoch in range(epochs):
            values = []
            for x, y in data:
                values.append(self.step(x, y))
                seen += 64
            print("%d variables, epoch %d: %.4f" % (len(self.variables), epoch, float(tf.add_n(values)) / len(values)))
        return seen


def main():
    keras.utils.set_random_seed(4)
    x, y = paintings()
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(64, drop_remainder=True).prefetch(2)
    base, head = backbone(), layers.Dense(5)
    inp = keras.Input((64, 64, 3))
    model = keras.Model(inp, head(base(inp)))
    t0 = time.time()
    seen = Phase(model, head.trainable_variables, 1e-2).run(data, 1)
    seen += Phase(model, model.trainable_variables, 1e-3).run(data, 4)
    print("WORK", seen)
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))


if __name__ == "__main__":
    main()
