import tensorflow as tf
from tensorflow import keras

vocab, maxlen = 20000, 200
(x_train, y_train), (x_val, y_val) = keras.datasets.imdb.load_data(num_words=vocab)
x_train = keras.preprocessing.sequence.pad_sequences(x_train, maxlen=maxlen)
x_val = keras.preprocessing.sequence.pad_sequences(x_val, maxlen=maxlen)


class Block(keras.layers.Layer):
    def __init__(self, dim, heads):
        super().__init__()
        self.att = keras.layers.MultiHeadAttention(heads, dim)
        self.ffn = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(dim)])
        self.one, self.two = keras.layers.LayerNormalization(), keras.layers.LayerNormalization()

    def call(self, inputs):
        out = self.one(inputs + self.att(inputs, inputs))
        return self.two(out + self.ffn(out))


inputs = keras.Input((maxlen,))
x = keras.layers.Embedding(vocab, 32)(inputs)
x = keras.layers.GlobalAveragePooling1D()(Block(32, 2)(x))
model = keras.Model(inputs, keras.layers.Dense(2, activation="softmax")(x))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=32, epochs=2, validation_data=(x_val, y_val))
