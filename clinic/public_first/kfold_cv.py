import numpy as np
from keras.layers import Dense
from keras.models import Sequential
from sklearn.model_selection import KFold

data = np.loadtxt("housing.csv", delimiter=",")
x, y = data[:, :-1], data[:, -1]


def build():
    model = Sequential([Dense(64, activation="relu", input_shape=(x.shape[1],)), Dense(64, activation="relu"), Dense(1)])
    model.compile("rmsprop", "mse", metrics=["mae"])
    return model


scores = []
for train, test in KFold(5, shuffle=True).split(x):
    model = build()
    model.fit(x[train], y[train], epochs=100, batch_size=1, verbose=0)
    scores.append(model.evaluate(x[test], y[test], verbose=0)[1])
print(np.mean(scores))
