import numpy as np
import tensorflow as tf
import keras
from keras import layers

SEQ = 96
PITCHES = 88


def make_rolls(n=20000, seed=5):
    """Binary piano rolls, one bar at 24 ticks per quarter."""
    rng = np.random.default_rng(seed)
    base = rng.integers(0, PITCHES - 12, size=(n, 1, 1))
    pitch = np.arange(PITCHES)[None, None, :]
    phase = rng.integers(0, 8, size=(n, SEQ + 1, 1), dtype=np.int16)
    return (((pitch - base) % 12) == phase).astype(np.uint8)


class PianoRollRNN(keras.Model):
    def __init__(self, units=256):
        super().__init__()
        self.inp = layers.Dense(units, activation="relu")
        self.gru1 = layers.GRU(units, return_sequences=True)
        self.gru2 = layers.GRU(units, return_sequences=True)
        self.norm = layers.LayerNormalization()
        self.out = layers.Dense(PITCHES)

    def call(self, x, training=False):
        h = self.gru1(self.inp(x), training=training)
        h = self.norm(h + self.gru2(h, training=training))
        return self.out(h)


class ComposerTraining:
    def __init__(self, rolls, batch_size=128, lr=1e-3):
        self.model = PianoRollRNN()
        self.optimizer = keras.optimizers.Adam(lr, clipnorm=1.0)
        self.ds = (tf.data.Dataset.from_tensor_slices(rolls)
                   .shuffle(4000)
                   .batch(batch_size, drop_remainder=True)
                   .prefetch(tf.data.AUTOTUNE))
        self.loss = keras.metrics.Mean()
        self.predictions = []
        self.log = []

    @tf.function
    def step(self, roll):
        roll = tf.cast(roll, tf.float32)
        x, y = roll[:, :-1], roll[:, 1:]
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True)
            loss = tf.reduce_mean(
                tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss, tf.sigmoid(logits)

    def density(self, first):
        """Average number of notes sounding per tick since `first`."""
        per_batch = [tf.reduce_mean(tf.reduce_sum(p, axis=-1))
                     for p in self.predictions[first:]]
        return float(tf.add_n(per_batch)) / len(per_batch)

    def run(self, epochs):
        for epoch in range(epochs):
            self.loss.reset_state()
            first = len(self.predictions)
            for roll in self.ds:
                loss, probs = self.step(roll)
                self.loss.update_state(loss)
                self.predictions.append(probs)
            row = (epoch, float(self.loss.result()), self.density(first))
            self.log.append(row)
            print("epoch %d  bce %.4f  notes/tick %.2f" % row)


def main():
    keras.utils.set_random_seed(1)
    training = ComposerTraining(make_rolls())
    training.run(epochs=50)
    np.savetxt("pianoroll_log.csv", np.array(training.log), delimiter=",")
    training.model.save_weights("pianoroll.weights.h5")


if __name__ == "__main__":
    main()
