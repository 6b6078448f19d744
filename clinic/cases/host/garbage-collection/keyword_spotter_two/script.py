"""Ten spoken commands from log-mel patches, trained with a plain loop."""
import gc
import time

import keras
import numpy as np
import tensorflow as tf

FRAMES, MELS, WORDS = 98, 40, 10
BATCH = 64
EPOCHS = 3


class Utterance:
    def __init__(self, speaker, word, phones, gain):
        self.speaker = speaker
        self.word = word
        self.phones = phones
        self.gain = gain


def make_corpus(n, seed=0):
    rng = np.random.default_rng(seed)
    words = rng.integers(0, WORDS, size=n)
    lengths = rng.integers(3, 8, size=n)
    corpus = []
    for i in range(n):
        phones = [("ph%d" % p, float(d)) for p, d in
                  zip(rng.integers(0, 40, lengths[i]), rng.random(lengths[i]))]
        corpus.append(Utterance("s%03d" % (i % 200), int(words[i]), phones, 0.5 + (i % 7) / 7))
    return corpus


def log_mels(corpus, seed=1):
    rng = np.random.default_rng(seed)
    t = np.arange(FRAMES)[:, None] / FRAMES
    m = np.arange(MELS)[None, :] / MELS
    shapes = np.stack([np.sin(2 * np.pi * ((w + 1) * t + w * m)) for w in range(WORDS)])
    labels = np.array([u.word for u in corpus], np.int32)
    gains = np.array([u.gain for u in corpus], np.float32)
    noise = rng.standard_normal((len(corpus), FRAMES, MELS), dtype=np.float32)
    x = shapes[labels].astype(np.float32) * gains[:, None, None] + noise
    return x[..., None], labels


def build():
    inputs = keras.Input((FRAMES, MELS, 1))
    h = keras.layers.Conv2D(32, 5, strides=2, padding="same", activation="relu")(inputs)
    h = keras.layers.Conv2D(48, 3, padding="same", activation="relu")(h)
    h = keras.layers.MaxPooling2D(2)(h)
    h = keras.layers.Conv2D(64, 3, padding="same", activation="relu")(h)
    h = keras.layers.GlobalAveragePooling2D()(h)
    h = keras.layers.Dropout(0.2)(h)
    return keras.Model(inputs, keras.layers.Dense(WORDS)(h))


def main():
    keras.utils.set_random_seed(0)
    corpus = make_corpus(12000)
    x, y = log_mels(corpus[:1344])
    train = (tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1344, seed=3)
             .batch(BATCH, drop_remainder=True).prefetch(2))

    model = build()
    optimizer = keras.optimizers.Adam(2e-3)
    optimizer.build(model.trainable_variables)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    accuracy = keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def train_on(mels, words):
        with tf.GradientTape() as tape:
            logits = model(mels, training=True)
            loss = loss_fn(words, logits)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        accuracy.update_state(words, logits)
        return loss

    steps = 0
    start = time.perf_counter()
    for epoch in range(EPOCHS):
        accuracy.reset_state()
        for mels, words in train:
            loss = train_on(mels, words)
            steps += 1
            del mels, words
            gc.collect()
        print(f"epoch {epoch}: loss {float(loss):.3f} accuracy {float(accuracy.result()):.3f}")
    seconds = time.perf_counter() - start
    print("WORK", steps * BATCH)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
