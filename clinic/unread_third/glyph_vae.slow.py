# beta-VAE on rendered glyphs with KL warm-up
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

Z = 16
BATCH = 128
WARMUP = 3000
EPOCHS = 12


def render_glyphs(n=40000):
    rng = np.random.default_rng(0)
    strokes = rng.random((n, 7, 7, 1)) > 0.6
    return np.repeat(np.repeat(strokes, 4, 1), 4, 2).astype("float32")


class VAE(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = tf.keras.Sequential([
            layers.Input((28, 28, 1)),
            layers.Conv2D(32, 3, 2, "same", activation="relu"),
            layers.Conv2D(64, 3, 2, "same", activation="relu"),
            layers.Flatten(),
            layers.Dense(2 * Z),
        ])
        self.decoder = tf.keras.Sequential([
            layers.Input((Z,)),
            layers.Dense(7 * 7 * 32, activation="relu"),
            layers.Reshape((7, 7, 32)),
            layers.Conv2DTranspose(64, 3, 2, "same", activation="relu"),
            layers.Conv2DTranspose(1, 3, 2, "same"),
        ])

    def call(self, x):
        mean, logvar = tf.split(self.encoder(x), 2, axis=1)
        z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
        return self.decoder(z), mean, logvar


vae = VAE()
vae(tf.zeros((1, 28, 28, 1)))
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(vae.trainable_variables)


@tf.function
def train_step(x, beta):
    with tf.GradientTape() as tape:
        logits, mean, logvar = vae(x)
        rec = tf.reduce_sum(
            tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), axis=[1, 2, 3])
        kl = -0.5 * tf.reduce_sum(1 + logvar - tf.square(mean) - tf.exp(logvar), axis=1)
        loss = tf.reduce_mean(rec + beta * kl)
    grads = tape.gradient(loss, vae.trainable_variables)
    optimizer.apply_gradients(zip(grads, vae.trainable_variables))
    return loss


glyphs = render_glyphs()
train = (tf.data.Dataset.from_tensor_slices(glyphs)
         .shuffle(len(glyphs))
         .batch(BATCH, drop_remainder=True)
         .prefetch(tf.data.AUTOTUNE))

step = 0
for epoch in range(EPOCHS):
    for x in train:
        beta = min(4.0, 4.0 * step / WARMUP)
        loss = train_step(x, beta)
        step += 1
    print(f"epoch {epoch}: loss {float(loss):.2f}, beta {beta:.3f}")
