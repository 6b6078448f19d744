import numpy as np
import tensorflow as tf


class PINN:
    def __init__(self, layers):
        self.model = tf.keras.Sequential([tf.keras.layers.Dense(n, activation="tanh") for n in layers[:-1]] + [tf.keras.layers.Dense(layers[-1])])
        self.optimizer = tf.keras.optimizers.Adam(1e-3)

    def residual(self, x, t):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, t])
            u = self.model(tf.concat([x, t], 1))
            u_x = tape.gradient(u, x)
        return tape.gradient(u, t) + u * u_x - 0.01 / np.pi * tape.gradient(u_x, x)

    def step(self, x, t, xb, tb, ub):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.residual(x, t) ** 2) + tf.reduce_mean((self.model(tf.concat([xb, tb], 1)) - ub) ** 2)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def train(self, epochs, *data):
        for epoch in range(epochs):
            loss = self.step(*data)
            if epoch % 100 == 0:
                print(epoch, loss.numpy())


def column(n):
    return tf.convert_to_tensor(np.random.uniform(-1, 1, (n, 1)), tf.float32)


PINN([20] * 8 + [1]).train(10000, column(10000), column(10000), column(100), column(100), column(100))
