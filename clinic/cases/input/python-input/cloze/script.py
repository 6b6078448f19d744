# Masked-token pretraining of a small encoder on a synthetic log corpus.
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(0)
VOCAB, LENGTH, BATCH = 2000, 96, 64
MASK = 1


class ClozeBatches(keras.utils.PyDataset):
    def __init__(self, corpus, batch, rate=0.15, **kw):
        super().__init__(**kw)
        self.corpus = corpus
        self.batch = batch
        self.rate = rate
        self.rng = np.random.default_rng(1)

    def __len__(self):
        return len(self.corpus) // self.batch

    def corrupt(self, sentence):
        source, weight = [], []
        for token in sentence:
            if self.rng.random() < self.rate:
                source.append(MASK if self.rng.random() < 0.8 else int(self.rng.integers(2, VOCAB)))
                weight.append(1.0)
            else:
                source.append(token)
                weight.append(0.0)
        return source, weight

    def __getitem__(self, i):
        target = self.corpus[i * self.batch : (i + 1) * self.batch]
        pairs = [self.corrupt(s) for s in target]
        source = np.array([p[0] for p in pairs], "int32")
        weight = np.array([p[1] for p in pairs], "float32")
        return source, target, weight


def encoder():
    tokens = keras.Input((LENGTH,), dtype="int32")
    h = layers.Embedding(VOCAB, 24)(tokens)
    h = layers.Conv1D(24, 3, padding="same", activation="relu")(h)
    h = layers.LayerNormalization()(h)
    # tied to a reduced output space: the token's class, not the token
    return keras.Model(tokens, layers.Dense(16)(h))


corpus = np.random.default_rng(2).zipf(1.3, (64 * 64, LENGTH)) % VOCAB
corpus = corpus.astype("int32")


class ClassLoss(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return keras.losses.sparse_categorical_crossentropy(y_true % 16, y_pred, from_logits=True)


model = encoder()
model.compile(optimizer="adam", loss=ClassLoss())
data = ClozeBatches(corpus, BATCH)
h = model.fit(data, epochs=7, verbose=0)
print("cloze loss:", h.history["loss"][-1])
