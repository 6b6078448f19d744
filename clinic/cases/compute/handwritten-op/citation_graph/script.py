"""Topic of a paper from the papers it cites: two rounds of neighbour averaging."""
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(70)
PAPERS, FEATURES, TOPICS, CITES = 260, 64, 6, 8


def library():
    rng = np.random.default_rng(70)
    words = rng.random((PAPERS, FEATURES)).astype("float32")
    cites = rng.integers(0, PAPERS, (PAPERS, CITES)).astype("int32")
    topic = rng.integers(0, TOPICS, PAPERS).astype("int32")
    return words, cites, topic


class NeighbourMean(keras.layers.Layer):
    def __init__(self, units, cites):
        super().__init__()
        self.cites = cites
        self.mix = keras.layers.Dense(units, activation="relu")

    def build(self, shape):
        self.mix.build((shape[0], shape[1] * 2))

    def gathered(self, h):
        rows = []
        for paper in range(len(self.cites)):
            rows.append(tf.reduce_mean(tf.gather(h, self.cites[paper]), axis=0))
        return tf.stack(rows)

    def call(self, h):
        return self.mix(tf.concat([h, self.gathered(h)], axis=1))


class GraphNet(keras.Model):
    def __init__(self, cites):
        super().__init__()
        self.first = NeighbourMean(32, cites)
        self.second = NeighbourMean(32, cites)
        self.out = keras.layers.Dense(TOPICS)

    def call(self, words):
        return self.out(self.second(self.first(words)))


def main():
    words, cites, topic = library()
    net = GraphNet(cites)
    net.compile(keras.optimizers.Adam(5e-3),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ds = tf.data.Dataset.from_tensors((words, topic)).repeat(250).prefetch(2)
    net.fit(ds, epochs=1, verbose=2)


if __name__ == "__main__":
    main()
