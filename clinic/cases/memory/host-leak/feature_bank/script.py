"""Contrastive training with a bank of features by step, so that any of them can be looked at later."""
import time
import numpy as np
import tensorflow as tf

BATCH, STEPS = 512, 600


def make_model():
    return tf.keras.Sequential([
        tf.keras.layers.Input((128,)),
        tf.keras.layers.Dense(512, activation="relu"),
        tf.keras.layers.Dense(384),
    ])


def train(x, steps):
    model = make_model()
    opt = tf.keras.optimizers.Adam(1e-3)

    @tf.function
    def step(a, b):
        with tf.GradientTape() as tape:
            za, zb = tf.math.l2_normalize(model(a), 1), tf.math.l2_normalize(model(b), 1)
            logits = tf.matmul(za, zb, transpose_b=True) / 0.1
            labels = tf.range(tf.shape(a)[0])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss, za

    ds = tf.data.Dataset.from_tensor_slices(x).shuffle(4096).batch(BATCH, drop_remainder=True).repeat()
    ds = ds.map(lambda v: (v + 0.01 * tf.random.normal(tf.shape(v)), v), num_parallel_calls=2).prefetch(2)
    bank = {}
    for number, (a, b) in enumerate(ds.take(steps)):
        loss, features = step(a, b)
        bank[number] = features
        if number % 100 == 0:
            print(number, float(loss))
    return model, bank


data = np.random.default_rng(0).normal(size=(20_000, 128)).astype("float32")
train(data, 5)
start = time.perf_counter()
model, bank = train(data, STEPS)
print("last features", bank[max(bank)].shape)
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))
