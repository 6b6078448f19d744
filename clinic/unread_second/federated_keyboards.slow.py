"""Federated averaging over simulated phones (swipe-direction classifier)."""
import keras
import numpy as np
from keras import layers

N_CLIENTS = 60
CLIENTS_PER_ROUND = 12
ROUNDS = 25
FEATURES = 40
GESTURES = 8


def make_clients(seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(GESTURES, FEATURES))
    clients = []
    for _ in range(N_CLIENTS):
        n = 4000
        drift = rng.normal(scale=0.3, size=FEATURES)
        y = rng.integers(0, GESTURES, n)
        x = centres[y] + drift + rng.normal(scale=0.8, size=(n, FEATURES))
        clients.append((x.astype("float32"), y.astype("int32")))
    return clients


def create_model():
    model = keras.Sequential([
        keras.Input((FEATURES,)),
        layers.Dense(128, activation="relu"),
        layers.Dense(64, activation="relu"),
        layers.Dense(GESTURES, activation="softmax"),
    ])
    model.compile(
        optimizer=keras.optimizers.SGD(0.05),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def average(updates, sizes):
    total = float(sum(sizes))
    return [
        sum(w[i] * (n / total) for w, n in zip(updates, sizes))
        for i in range(len(updates[0]))
    ]


def client_update(weights, data):
    model = create_model()
    model.set_weights(weights)
    x, y = data
    model.fit(x, y, batch_size=64, epochs=2, verbose=0)
    return model.get_weights(), len(x)


def main():
    rng = np.random.default_rng(42)
    clients = make_clients()
    test_x = np.concatenate([c[0][:40] for c in clients])
    test_y = np.concatenate([c[1][:40] for c in clients])
    server = create_model()
    for rnd in range(ROUNDS):
        chosen = rng.choice(N_CLIENTS, CLIENTS_PER_ROUND, replace=False)
        weights = server.get_weights()
        updates, sizes = [], []
        for c in chosen:
            new_weights, n = client_update(weights, clients[c])
            updates.append(new_weights)
            sizes.append(n)
        server.set_weights(average(updates, sizes))
        if (rnd + 1) % 5 == 0:
            loss, acc = server.evaluate(test_x, test_y, batch_size=1024, verbose=0)
            print(f"round {rnd + 1}: loss {loss:.3f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
