"""Federated averaging over phones: each learns from its own typing rhythm, the server averages."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import keras
import numpy as np
from keras import layers

PHONES, ROUNDS, PICK = 24, 6, 5
FEATURES, CLASSES = 40, 6
rng = np.random.default_rng(11)
centres = rng.normal(size=(CLASSES, FEATURES)).astype("float32")


def phone_data(pid):
    r = np.random.default_rng(1000 + pid)
    mix = r.dirichlet(np.full(CLASSES, 0.6))
    y = r.choice(CLASSES, 320, p=mix)
    x = centres[y] + r.normal(scale=1.6, size=(320, FEATURES))
    return x.astype("float32"), y.astype("int32")


def network():
    i = keras.Input((FEATURES,))
    h = layers.Dense(64, activation="gelu")(i)
    h = layers.LayerNormalization()(h)
    r = layers.Dense(64, activation="gelu")(h)
    h = layers.Add()([h, r])
    return keras.Model(i, layers.Dense(CLASSES)(h))


class Phone:
    def __init__(self, pid):
        self.x, self.y = phone_data(pid)

    def work(self, template, weights):
        mine = keras.models.clone_model(template)
        mine.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        mine.set_weights(weights)
        h = mine.fit(self.x, self.y, batch_size=32, epochs=2, verbose=0)
        return mine.get_weights(), len(self.x), h.history["loss"][-1]


class Server:
    def __init__(self):
        self.model = network()
        self.fleet = [Phone(p) for p in range(PHONES)]

    def round(self):
        chosen = rng.choice(PHONES, PICK, replace=False)
        now = self.model.get_weights()
        replies = [self.fleet[c].work(self.model, now) for c in chosen]
        n = float(sum(r[1] for r in replies))
        self.model.set_weights([sum(r[0][k] * (r[1] / n) for r in replies) for k in range(len(now))])
        return float(np.mean([r[2] for r in replies]))


server = Server()
for k in range(ROUNDS):
    print(f"round {k}: mean local loss {server.round():.4f}")
x, y = phone_data(9999)
logits = server.model(x).numpy()
print("unseen phone accuracy", (logits.argmax(1) == y).mean())
