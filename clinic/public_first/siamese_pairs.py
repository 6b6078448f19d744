import numpy as np
from keras import backend as K
from keras.datasets import mnist
from keras.layers import Dense, Flatten, Input, Lambda
from keras.models import Model, Sequential

(x_train, y_train), (x_test, y_test) = mnist.load_data()
x_train = x_train.astype("float32") / 255


def create_pairs(x, digit_indices):
    pairs, labels = [], []
    n = min([len(digit_indices[d]) for d in range(10)]) - 1
    for d in range(10):
        for i in range(n):
            z1, z2 = digit_indices[d][i], digit_indices[d][i + 1]
            pairs += [[x[z1], x[z2]]]
            z1, z2 = digit_indices[d][i], digit_indices[(d + 1) % 10][i]
            pairs += [[x[z1], x[z2]]]
            labels += [1, 0]
    return np.array(pairs), np.array(labels)


pairs, y = create_pairs(x_train, [np.where(y_train == i)[0] for i in range(10)])
base = Sequential([Flatten(), Dense(128, activation="relu"), Dense(128, activation="relu")])
a, b = Input((28, 28)), Input((28, 28))
distance = Lambda(lambda v: K.sqrt(K.maximum(K.sum(K.square(v[0] - v[1]), axis=1, keepdims=True), K.epsilon())))([base(a), base(b)])
model = Model([a, b], distance)
model.compile(loss="mse", optimizer="rmsprop")
model.fit([pairs[:, 0], pairs[:, 1]], y, batch_size=128, epochs=20)
