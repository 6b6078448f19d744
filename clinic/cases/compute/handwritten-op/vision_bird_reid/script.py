"""Re-identification of individual birds from colour crops, trained with a contrastive loss."""
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class Config:
    n_birds: int = 40
    shots_per_bird: int = 30
    image_size: int = 32
    birds_per_batch: int = 5
    shots_in_batch: int = 4
    embedding_dim: int = 64
    margin: float = 1.0
    learning_rate: float = 5e-4
    iterations: int = 450
    seed: int = 3


def make_crops(cfg):
    rng = np.random.default_rng(cfg.seed)
    n = cfg.image_size
    base = rng.normal(0, 1, (cfg.n_birds, n // 4, n // 4, 3)).astype("float32")
    base = base.repeat(4, axis=1).repeat(4, axis=2)
    noise = rng.normal(0, 0.7, (cfg.n_birds, cfg.shots_per_bird, n, n, 3)).astype("float32")
    return base[:, None] + noise


class EpisodeSampler:
    def __init__(self, crops, cfg):
        self.crops, self.cfg = crops, cfg
        self.rng = np.random.default_rng(cfg.seed + 1)

    def __iter__(self):
        c = self.cfg
        for _ in range(c.iterations):
            birds = self.rng.choice(c.n_birds, c.birds_per_batch, replace=False)
            shots = self.rng.integers(0, c.shots_per_bird, (c.birds_per_batch, c.shots_in_batch))
            x = self.crops[birds[:, None], shots]
            y = np.repeat(birds, c.shots_in_batch).astype("int32")
            yield x.reshape((-1,) + x.shape[2:]), y


def build_encoder(cfg):
    return keras.Sequential([
        keras.Input((cfg.image_size, cfg.image_size, 3)),
        layers.Conv2D(16, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(cfg.embedding_dim),
        layers.UnitNormalization(),
    ])


class ContrastiveTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.batch = cfg.birds_per_batch * cfg.shots_in_batch
        self.encoder = build_encoder(cfg)
        self.optimizer = keras.optimizers.Adam(cfg.learning_rate)
        self.optimizer.build(self.encoder.trainable_variables)
        self.loss_metric = keras.metrics.Mean()

    def contrastive_loss(self, emb, labels):
        total = 0.0
        pairs = 0
        for i in range(self.batch):
            for j in range(i + 1, self.batch):
                d2 = tf.reduce_sum(tf.square(emb[i] - emb[j]))
                same = tf.cast(tf.equal(labels[i], labels[j]), tf.float32)
                d = tf.sqrt(d2 + 1e-8)
                push = tf.square(tf.maximum(self.cfg.margin - d, 0.0))
                total += same * d2 + (1.0 - same) * push
                pairs += 1
        return total / pairs

    @tf.function
    def train_step(self, images, labels):
        with tf.GradientTape() as tape:
            emb = self.encoder(images, training=True)
            loss = self.contrastive_loss(emb, labels)
        variables = self.encoder.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.loss_metric.update_state(loss)

    def fit(self, sampler):
        steps = 0
        for images, labels in sampler:
            self.train_step(tf.constant(images), tf.constant(labels))
            steps += 1
            if steps % 150 == 0:
                print(f"iter {steps:4d}  loss {float(self.loss_metric.result()):.4f}")
                self.loss_metric.reset_state()
        return steps


def main():
    cfg = Config()
    keras.utils.set_random_seed(cfg.seed)
    sampler = EpisodeSampler(make_crops(cfg), cfg)
    trainer = ContrastiveTrainer(cfg)
    start = time.perf_counter()
    steps = trainer.fit(sampler)
    seconds = time.perf_counter() - start
    print("WORK", steps)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
