"""Secondary structure of proteins, sequences sorted into three length buckets."""
import time
from dataclasses import dataclass
import numpy as np
import keras
import tensorflow as tf
from keras import layers


@dataclass
class Settings:
    lengths: tuple = (128, 192, 256)
    batch: int = 32
    per_bucket: int = 128
    width: int = 128
    epochs: int = 2


def make_proteins(cfg):
    rng = np.random.default_rng(2)
    buckets = []
    for length in cfg.lengths:
        seq = rng.integers(1, 21, (cfg.per_bucket, length)).astype(np.int32)
        helix = ((seq + np.roll(seq, 1, 1) + np.roll(seq, -1, 1)) % 3).astype(np.int32)
        buckets.append((seq, helix))
    return buckets


def tagger(cfg):
    inp = keras.Input((None,), dtype="int32")
    x = layers.Embedding(21, cfg.width)(inp)
    for _ in range(3):
        y = layers.Conv1D(cfg.width, 9, padding="same", activation="relu")(x)
        y = layers.Conv1D(cfg.width, 9, padding="same")(y)
        x = layers.Add()([x, y])
    return keras.Model(inp, layers.Dense(3)(x))


def main():
    cfg = Settings()
    keras.utils.set_random_seed(2)
    buckets = make_proteins(cfg)
    model = tagger(cfg)
    opt = keras.optimizers.Adam(1e-3)
    opt.build(model.trainable_variables)
    ce = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(seq, tags):
        with tf.GradientTape() as tape:
            loss = ce(tags, model(seq, training=True))
        opt.apply(tape.gradient(loss, model.trainable_variables))
        return loss

    rng = np.random.default_rng(0)
    work = 0
    t0 = time.time()
    for epoch in range(cfg.epochs):
        plan = [(b, s) for b in range(len(buckets)) for s in range(0, cfg.per_bucket, cfg.batch)]
        rng.shuffle(plan)
        losses = []
        for b, s in plan:
            seq, tags = buckets[b]
            losses.append(step(tf.constant(seq[s:s + cfg.batch]), tf.constant(tags[s:s + cfg.batch])))
            work += cfg.batch
        print("epoch %d loss %.4f" % (epoch, float(tf.reduce_mean(losses))))
    print("WORK", work)
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))


if __name__ == "__main__":
    main()
