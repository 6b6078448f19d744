import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(40, activation="relu"), tf.keras.layers.Dense(40, activation="relu"), tf.keras.layers.Dense(1)])
model(tf.zeros((1, 1)))
optimizer = tf.keras.optimizers.Adam(1e-3)


def sine_task():
    a, b = np.random.uniform(0.1, 5), np.random.uniform(0, 3.14)
    x = np.random.uniform(-5, 5, (20, 1)).astype("float32")
    return x[:10], (a * np.sin(x[:10] + b)).astype("float32"), x[10:], (a * np.sin(x[10:] + b)).astype("float32")


def forward(weights, x):
    for i in range(0, 4, 2):
        x = tf.nn.relu(x @ weights[i] + weights[i + 1])
    return x @ weights[4] + weights[5]


def train_batch(tasks):
    with tf.GradientTape() as outer:
        losses = []
        for x, y, x2, y2 in tasks:
            with tf.GradientTape() as inner:
                loss = tf.reduce_mean((forward(model.trainable_variables, x) - y) ** 2)
            grads = inner.gradient(loss, model.trainable_variables)
            fast = [w - 0.01 * g for w, g in zip(model.trainable_variables, grads)]
            losses.append(tf.reduce_mean((forward(fast, x2) - y2) ** 2))
        total = tf.add_n(losses)
    optimizer.apply_gradients(zip(outer.gradient(total, model.trainable_variables), model.trainable_variables))
    return total


for i in range(20000):
    loss = train_batch([sine_task() for _ in range(4)])
    if i % 500 == 0:
        print(i, float(loss))
