"""Two-tower retrieval of recipes, trained with in-batch softmax."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(29)
COOKS, RECIPES, WIDTH, BATCH, STEPS = 1_200_000, 600_000, 16, 256, 80


class Towers(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.cooks = tf.keras.layers.Embedding(COOKS, WIDTH, name="cooks")
        self.recipes = tf.keras.layers.Embedding(RECIPES, WIDTH, name="recipes")
        self.query = tf.keras.layers.Dense(WIDTH)

    def call(self, pair):
        q = self.query(self.cooks(pair[:, 0]))
        r = self.recipes(pair[:, 1])
        return tf.matmul(q, r, transpose_b=True) * 20.0


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = tf.keras.optimizers.Adagrad(0.1)

    @tf.function(input_signature=[tf.TensorSpec((BATCH, 2), tf.int64)])
    def step(self, pair):
        with tf.GradientTape() as tape:
            scores = self.model(pair)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(BATCH), scores))
        variables = self.model.trainable_variables
        grads = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(grads, variables))
        return loss

    def run(self, ds):
        losses = [self.step(pair) for pair in ds]
        return np.array(losses)


rng = np.random.default_rng(29)
cook = (rng.zipf(1.2, STEPS * BATCH) * 7919) % COOKS
recipe = (cook * 31 + rng.integers(0, 3, len(cook))) % RECIPES
pairs = np.stack([cook, recipe], 1).astype("int64")
ds = tf.data.Dataset.from_tensor_slices(pairs).batch(BATCH).prefetch(2)

model = Towers()
model(pairs[:BATCH])
trainer = Trainer(model)
trainer.optimizer.build(model.trainable_variables)
t0 = time.time()
losses = trainer.run(ds)
print("first", losses[0], "last", losses[-1], "in", round(time.time() - t0, 2), "s")
