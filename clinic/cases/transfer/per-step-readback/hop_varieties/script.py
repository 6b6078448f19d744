"""Coursework 3: classify hop varieties from their oil profile (40 compounds).

Part (b): keep a confusion matrix while training so we can watch which varieties get mixed up.
"""
import numpy as np
import tensorflow as tf

VARIETIES = 12
COMPOUNDS = 40
BATCH = 256

tf.keras.utils.set_random_seed(3)


def gas_chromatograph(n):
    centres = np.random.randn(VARIETIES, COMPOUNDS)
    labels = np.random.randint(0, VARIETIES, n)
    samples = centres[labels] + 1.5 * np.random.randn(n, COMPOUNDS)
    return samples.astype(np.float32), labels.astype(np.int32)


X, Y = gas_chromatograph(BATCH * 100)
dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH).prefetch(1)

model = tf.keras.Sequential([
    tf.keras.layers.Input((COMPOUNDS,)),
    tf.keras.layers.Dense(256, activation="gelu"),
    tf.keras.layers.Dropout(0.1),
    tf.keras.layers.Dense(256, activation="gelu"),
    tf.keras.layers.Dense(VARIETIES),
])
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = loss_fn(y, logits)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss, tf.argmax(logits, axis=1, output_type=tf.int32)


class MixUps:
    """Counts (true, predicted) pairs."""

    def __init__(self):
        self.table = np.zeros((VARIETIES, VARIETIES), int)

    def update(self, truth, guess):
        for i in range(len(truth)):
            self.table[int(truth[i]), int(guess[i])] += 1

    def worst(self):
        off = self.table - np.diag(np.diag(self.table))
        return np.unravel_index(off.argmax(), off.shape)


for epoch in range(2):
    mixups = MixUps()
    running = 0.0
    for step, (x, y) in enumerate(dataset):
        loss, guess = train_step(x, y)
        mixups.update(y, guess)
        running += loss
    print("Epoch", epoch, "loss", float(running) / (step + 1),
          "most confused", mixups.worst())
