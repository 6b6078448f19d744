import numpy as np
import tensorflow as tf

(x, _), _ = tf.keras.datasets.fashion_mnist.load_data()
x = x.reshape(-1, 784).astype("float32") / 255
encoder = tf.keras.Sequential([tf.keras.layers.Dense(400, activation="relu"), tf.keras.layers.Dense(40)])
decoder = tf.keras.Sequential([tf.keras.layers.Dense(400, activation="relu"), tf.keras.layers.Dense(784)])
optimizer = tf.keras.optimizers.Adam(1e-3)


def elbo(batch):
    mean, logvar = tf.split(encoder(batch), 2, axis=1)
    z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
    logits = decoder(z)
    rec = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=batch, logits=logits), axis=1)
    return tf.reduce_mean(rec - 0.5 * tf.reduce_sum(1 + logvar - mean**2 - tf.exp(logvar), axis=1))


losses = []
for epoch in range(20):
    perm = np.random.permutation(len(x))
    for i in range(0, len(x), 128):
        batch = x[perm[i : i + 128]]
        with tf.GradientTape() as tape:
            loss = elbo(batch)
        variables = encoder.trainable_variables + decoder.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        losses.append(loss.numpy())
    print(epoch, np.mean(losses[-100:]))
