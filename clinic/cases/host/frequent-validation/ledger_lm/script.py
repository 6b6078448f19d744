# next-entry model over ledger codes
import tempfile
import time

import numpy as np
import tensorflow as tf

VOCAB, LEN, BATCH, STEPS = 20000, 12, 32, 120


def ledger(seed=0):
    rng = np.random.default_rng(seed)
    while True:
        start = rng.integers(0, VOCAB, (BATCH, 1))
        seq = (start + np.arange(LEN + 1) * 7) % VOCAB
        yield seq[:, :-1].astype("int32"), seq[:, -1].astype("int32")


class Predictor(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.emb = tf.keras.layers.Embedding(VOCAB, 64)
        self.rnn = tf.keras.layers.GRU(64)
        self.out = tf.keras.layers.Dense(VOCAB)

    def call(self, ids):
        return self.out(self.rnn(self.emb(ids)))


def train(folder):
    tf.keras.utils.set_random_seed(77)
    model = Predictor()
    opt = tf.keras.optimizers.Adam(1e-3)
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    step_var = tf.Variable(0, dtype=tf.int64)
    ckpt = tf.train.Checkpoint(model=model, opt=opt, step=step_var)
    manager = tf.train.CheckpointManager(ckpt, folder, max_to_keep=3)
    save_every = 2

    @tf.function
    def step_fn(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        step_var.assign_add(1)
        return loss

    sig = (tf.TensorSpec((BATCH, LEN), tf.int32), tf.TensorSpec((BATCH,), tf.int32))
    ds = tf.data.Dataset.from_generator(ledger, output_signature=sig).prefetch(4)
    t0 = time.time()
    for n, (x, y) in enumerate(ds.take(STEPS), 1):
        loss = step_fn(x, y)
        if n % save_every == 0:
            manager.save()
        if n % 20 == 0:
            print("step", n, "loss", round(float(loss), 4))
    print("loop:", round(time.time() - t0, 2), "s")


with tempfile.TemporaryDirectory() as tmp:
    train(tmp)
