import numpy as np
import tensorflow as tf

text = open("shakespeare.txt").read()
vocab = sorted(set(text))
char2idx = {u: i for i, u in enumerate(vocab)}
idx2char = np.array(vocab)
ids = np.array([char2idx[c] for c in text])


def split_input_target(chunk):
    return chunk[:-1], chunk[1:]


dataset = tf.data.Dataset.from_tensor_slices(ids).batch(101, drop_remainder=True)
dataset = dataset.map(split_input_target).shuffle(10000).batch(64, drop_remainder=True)
model = tf.keras.Sequential([tf.keras.layers.Embedding(len(vocab), 256), tf.keras.layers.GRU(1024, return_sequences=True), tf.keras.layers.Dense(len(vocab))])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(dataset, epochs=30)


def generate(start, count=1000):
    result = [char2idx[c] for c in start]
    for _ in range(count):
        probabilities = model.predict(np.array([result[-100:]]))[0, -1]
        result.append(int(np.argmax(probabilities)))
    return "".join(idx2char[result])


print(generate("ROMEO: "))
