# Retrieval model for the "you may also need" shelf. Input: one parquet of (customer, product) purchases.
import argparse
import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow import keras

logger = logging.getLogger("two_tower")


def load_interactions(path):
    df = pd.read_parquet(path, columns=["customer_id", "product_id", "ts"])
    df = df.sort_values("ts")
    customers, customer_index = pd.factorize(df["customer_id"])
    products, product_index = pd.factorize(df["product_id"])
    cut = int(len(df) * 0.98)
    x = {"customer": customers.astype("int32"), "product": products.astype("int32")}
    train = {k: v[:cut] for k, v in x.items()}
    test = {k: v[cut:] for k, v in x.items()}
    logger.info("%d rows, %d customers, %d products", len(df), len(customer_index), len(product_index))
    return train, test, customer_index, product_index


class Tower(keras.layers.Layer):
    def __init__(self, vocab, dim, hidden, **kwargs):
        super().__init__(**kwargs)
        self.table = keras.layers.Embedding(vocab, dim)
        self.mlp = keras.Sequential(
            [keras.layers.Dense(h, activation="relu") for h in hidden] + [keras.layers.Dense(dim)]
        )

    def call(self, ids):
        v = self.table(ids)
        return tf.math.l2_normalize(v + self.mlp(v), axis=-1)


class TwoTower(keras.Model):
    def __init__(self, n_customers, n_products, dim=64, temperature=0.07):
        super().__init__()
        self.customer_tower = Tower(n_customers, dim, [256, 128], name="customer")
        self.product_tower = Tower(n_products, dim, [256, 128], name="product")
        self.temperature = temperature
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.hit_tracker = keras.metrics.Mean(name="in_batch_hit")

    def compile(self, optimizer, table_optimizer, **kwargs):
        super().compile(optimizer=optimizer, **kwargs)
        self.table_optimizer = table_optimizer

    @property
    def metrics(self):
        return [self.loss_tracker, self.hit_tracker]

    def call(self, inputs):
        return self.customer_tower(inputs["customer"]), self.product_tower(inputs["product"])

    def _loss(self, inputs, training):
        c, p = self(inputs, training=training)
        logits = tf.matmul(c, p, transpose_b=True) / self.temperature
        same = tf.equal(inputs["product"][:, None], inputs["product"][None, :])
        diag = tf.eye(tf.shape(logits)[0], dtype=tf.bool)
        logits = tf.where(tf.logical_and(same, tf.logical_not(diag)), -1e9, logits)
        target = tf.range(tf.shape(logits)[0])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits))
        hit = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), target), tf.float32))
        return loss, hit

    def train_step(self, data):
        inputs, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            loss, hit = self._loss(inputs, training=True)
        tables = [self.customer_tower.table.embeddings, self.product_tower.table.embeddings]
        dense = self.customer_tower.mlp.trainable_variables + self.product_tower.mlp.trainable_variables
        grads = tape.gradient(loss, tables + dense)
        self.table_optimizer.apply_gradients(zip(grads[:2], tables))
        self.optimizer.apply_gradients(zip(grads[2:], dense))
        self.loss_tracker.update_state(loss)
        self.hit_tracker.update_state(hit)
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, data):
        inputs, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        loss, hit = self._loss(inputs, training=False)
        self.loss_tracker.update_state(loss)
        self.hit_tracker.update_state(hit)
        return {m.name: m.result() for m in self.metrics}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--purchases", default="data/purchases_2023.parquet")  # 38M rows, 4.1M customers, 620k products
    ap.add_argument("--out", type=Path, default=Path("artifacts/two_tower"))
    ap.add_argument("--dim", type=int, default=64)
    ap.add_argument("--batch-size", type=int, default=4096)
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--table-lr", type=float, default=5.0)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO)
    args.out.mkdir(parents=True, exist_ok=True)

    train, test, customer_index, product_index = load_interactions(args.purchases)

    model = TwoTower(len(customer_index), len(product_index), dim=args.dim)
    model.compile(optimizer=keras.optimizers.Adam(args.lr), table_optimizer=keras.optimizers.SGD(args.table_lr))
    history = model.fit(
        train,
        batch_size=args.batch_size,
        epochs=args.epochs,
        shuffle=True,
        validation_data=(test, None),
        validation_batch_size=args.batch_size,
    )

    vectors = model.product_tower(tf.range(len(product_index))).numpy()
    np.save(args.out / "product_vectors.npy", vectors)
    pd.Series(product_index).to_csv(args.out / "products.csv", index=False, header=False)
    (args.out / "history.json").write_text(json.dumps({k: [float(x) for x in v] for k, v in history.history.items()}))


if __name__ == "__main__":
    main()
