import tensorflow as tf


class Encoder(tf.keras.Model):
    def __init__(self, vocab, units):
        super().__init__()
        self.embedding = tf.keras.layers.Embedding(vocab, 256)
        self.gru = tf.keras.layers.GRU(units, return_sequences=True, return_state=True)

    def call(self, x):
        return self.gru(self.embedding(x))


class Decoder(tf.keras.Model):
    def __init__(self, vocab, units):
        super().__init__()
        self.embedding = tf.keras.layers.Embedding(vocab, 256)
        self.gru = tf.keras.layers.GRU(units, return_state=True)
        self.fc = tf.keras.layers.Dense(vocab)

    def call(self, x, hidden, output):
        out, state = self.gru(self.embedding(x), initial_state=hidden)
        return self.fc(out), state
