import os
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
import keras


class TransE(tf.Module):
    def __init__(self, n_ent, n_rel, dim, margin=1.0):
        super().__init__()
        bound = 6 / dim ** 0.5
        self.entity = tf.Variable(tf.random.uniform((n_ent, dim), -bound, bound, seed=0), name="entity")
        self.relation = tf.Variable(tf.random.uniform((n_rel, dim), -bound, bound, seed=1), name="relation")
        self.margin = margin

    def score(self, h, r, t):
        e = tf.nn.embedding_lookup
        return tf.norm(e(self.entity, h) + e(self.relation, r) - e(self.entity, t) + 1e-9, axis=-1)

    def __call__(self, batch):
        h, r, t, t_neg = tf.unstack(batch, axis=1)
        return tf.nn.relu(self.margin + self.score(h, r, t) - self.score(h, r, t_neg))


def triples(n, n_ent, n_rel, rng):
    h = rng.zipf(1.3, n) % n_ent
    r = rng.integers(0, n_rel, n)
    t = (h * 31 + r * 977) % n_ent
    return np.stack([h, r, t], 1).astype("int32")


def main(n_ent=160_000, n_rel=60, dim=64, batch=512, steps=100):
    rng = np.random.default_rng(17)
    kg = triples(200_000, n_ent, n_rel, rng)
    model = TransE(n_ent, n_rel, dim)
    optimizer = keras.optimizers.Adam(learning_rate=2e-3)
    optimizer.build(model.trainable_variables)

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.int32)])
    def train_step(b):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(b))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    def corrupt(rows):
        neg = rng.integers(0, n_ent, (len(rows), 1)).astype("int32")
        return np.concatenate([rows, neg], 1)

    running = 0.0
    t0 = time.perf_counter()
    for s in range(steps):
        rows = kg[rng.integers(0, len(kg), batch)]
        loss = train_step(tf.convert_to_tensor(corrupt(rows)))
        if (s + 1) % 30 == 0:
            running = float(loss)
            print(f"step {s + 1:4d}  hinge {running:.4f}")
    print("WORK", steps * batch)
    print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))


if __name__ == "__main__":
    main()
