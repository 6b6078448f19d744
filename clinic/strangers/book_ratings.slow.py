"""Matrix factorisation of book ratings with biases and weight decay."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(73)
rng = np.random.default_rng(73)

READERS, BOOKS, DIM = 150000, 100000, 24
DECAY = 1e-6

readers = rng.integers(0, READERS, 60000).astype("int32")
books = (rng.zipf(1.2, 60000) % BOOKS).astype("int32")
stars = np.clip(3.6 + rng.normal(0, 1, 60000) + 0.2 * (books % 5 - 2), 1, 5).astype("float32")


class Factors(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.reader_vec = self.add_weight(shape=(READERS, DIM), initializer="random_normal", name="reader_vec")
        self.book_vec = self.add_weight(shape=(BOOKS, DIM), initializer="random_normal", name="book_vec")
        self.reader_bias = self.add_weight(shape=(READERS,), initializer="zeros", name="reader_bias")
        self.book_bias = self.add_weight(shape=(BOOKS,), initializer="zeros", name="book_bias")
        self.mean = self.add_weight(shape=(), initializer="zeros", name="mean")

    def call(self, inputs):
        r, b = inputs
        dot = tf.reduce_sum(tf.gather(self.reader_vec, r) * tf.gather(self.book_vec, b), axis=-1)
        return self.mean + dot + tf.gather(self.reader_bias, r) + tf.gather(self.book_bias, b)

    def train_step(self, data):
        inputs, y = data
        with tf.GradientTape() as tape:
            pred = self(inputs, training=True)
            loss = tf.reduce_mean(tf.square(y - pred))
            decay = tf.nn.l2_loss(self.reader_vec) + tf.nn.l2_loss(self.book_vec)
            total = loss + DECAY * decay
        grads = tape.gradient(total, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        return {"mse": loss}


data = tf.data.Dataset.from_tensor_slices(((readers, books), stars))
data = data.cache().shuffle(60000, seed=1).batch(512, drop_remainder=True).prefetch(2)

model = Factors()
model.compile(optimizer=tf.keras.optimizers.Adam(2e-3))
model.fit(data, epochs=2, verbose=2)
