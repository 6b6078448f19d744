"""TransE on a synthetic knowledge graph; entities keep their metadata for the report."""
import gc
import random

import numpy as np
import tensorflow as tf

N_ENTITIES = 200_000
N_RELATIONS = 40
N_TRIPLES = 1_000_000
DIM = 64
BATCH = 2048


class Entity:
    def __init__(self, uid):
        self.uid = uid
        self.names = [f"entity {uid}", f"Q{uid}"]
        self.attributes = {"degree": 0, "kind": {"id": uid % 17}, "links": []}


def load_graph():
    rnd = random.Random(0)
    entities = [Entity(i) for i in range(N_ENTITIES)]
    triples = np.empty((N_TRIPLES, 3), np.int32)
    for k in range(3):
        hi = N_RELATIONS if k == 1 else N_ENTITIES
        triples[:, k] = np.random.default_rng(k).integers(0, hi, N_TRIPLES)
    for h, r, t in triples[:100_000].tolist():
        entities[h].attributes["links"].append((r, t, rnd.random()))
    return entities, triples


class TransE(tf.Module):
    def __init__(self):
        init = tf.random.uniform
        self.ent = tf.Variable(init([N_ENTITIES, DIM], -0.1, 0.1))
        self.rel = tf.Variable(init([N_RELATIONS, DIM], -0.1, 0.1))

    def score(self, h, r, t):
        diff = tf.gather(self.ent, h) + tf.gather(self.rel, r) - tf.gather(self.ent, t)
        return tf.reduce_sum(tf.abs(diff), axis=-1)


model = TransE()
LR = 0.05


@tf.function
def train_step(batch):
    h, r, t = tf.unstack(batch, axis=1)
    corrupt = tf.random.uniform(tf.shape(t), 0, N_ENTITIES, tf.int32)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.relu(1.0 + model.score(h, r, t) - model.score(h, r, corrupt)))
    g_ent, g_rel = tape.gradient(loss, [model.ent, model.rel])
    model.ent.scatter_sub(tf.IndexedSlices(LR * g_ent.values, g_ent.indices))
    model.rel.scatter_sub(tf.IndexedSlices(LR * g_rel.values, g_rel.indices))
    return loss


def main(epochs=4):
    entities, triples = load_graph()
    ds = tf.data.Dataset.from_tensor_slices(triples).batch(BATCH, drop_remainder=True)
    ds = ds.cache().shuffle(500).prefetch(tf.data.AUTOTUNE)
    for epoch in range(epochs):
        for batch in ds:
            loss = train_step(batch)
        gc.collect()
        print(f"epoch {epoch} loss {float(loss):.4f}")
    norms = tf.norm(model.ent, axis=1).numpy()
    for i in np.argsort(-norms)[:5]:
        print(entities[i].names[0], len(entities[i].attributes["links"]), norms[i])


if __name__ == "__main__":
    main()
