"""Denoising autoencoder on a laptop with little memory; memory is tidied up as training goes on."""
import gc
import time
import numpy as np
import tensorflow as tf

signals = np.random.rand(1280, 200).astype("float32")

auto = tf.keras.Sequential([
    tf.keras.layers.Input((200,)),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(200),
])
adam = tf.keras.optimizers.Adam()


@tf.function
def train(noisy, clean):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(auto(noisy) - clean))
    grads = tape.gradient(loss, auto.trainable_variables)
    adam.apply_gradients(zip(grads, auto.trainable_variables))
    return loss


def noisy_pair(batch):
    return batch + 0.1 * np.random.randn(*batch.shape).astype("float32"), batch


train(*map(tf.constant, noisy_pair(signals[:32])))
t0 = time.time()
for epoch in range(1):
    for k in range(0, len(signals), 32):
        a, b = noisy_pair(signals[k:k + 32])
        loss = train(tf.constant(a), tf.constant(b))
        del a, b
        gc.collect()
    print("epoch", epoch, "loss %.4f" % float(loss))
print("WORK", len(signals))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
