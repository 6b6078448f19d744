"""Federated averaging over simulated hospitals."""
import keras
import numpy as np

ROUNDS = 4
SITES = 4
LOCAL_EPOCHS = 2
BATCH = 40


class Site:
    def __init__(self, number):
        rng = np.random.default_rng(number)
        self.x = rng.normal(0.1 * number, 1, (200, 30)).astype("float32")
        self.y = (self.x[:, :3].sum(1) > 0.3 * number).astype("float32")
        self.rng = rng

    def minibatches(self):
        for _ in range(LOCAL_EPOCHS):
            order = self.rng.permutation(len(self.x))
            for k in range(0, len(order), BATCH):
                pick = order[k : k + BATCH]
                yield self.x[pick], self.y[pick]


class Trainer:
    def __init__(self, blueprint):
        self.blueprint = blueprint

    def learner(self):
        model = keras.models.model_from_json(self.blueprint.to_json())
        model.set_weights(self.blueprint.get_weights())
        model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "binary_crossentropy")
        return model

    def local(self, site):
        model = self.learner()
        loss = 0.0
        for x, y in site.minibatches():
            loss = model.train_on_batch(x, y)
        return model.get_weights(), float(loss)


def blueprint():
    return keras.Sequential(
        [
            keras.Input((30,)),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(24, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )


keras.utils.set_random_seed(12)
shared = blueprint()
trainer = Trainer(shared)
sites = [Site(i) for i in range(SITES)]
for r in range(ROUNDS):
    results = [trainer.local(s) for s in sites]
    merged = [np.mean(w, axis=0) for w in zip(*(weights for weights, _ in results))]
    shared.set_weights(merged)
    print("round", r, "loss", np.mean([l for _, l in results]))
