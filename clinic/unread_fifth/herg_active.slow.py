import numpy as np
from tensorflow import keras
from tensorflow.keras import layers

# hERG blockers: Morgan fingerprints (2048 bits, uint8) of the in-house library with assay results.
# We pretend that most labels are unknown and buy them in rounds.


class ActiveLearner:
    def __init__(self, fps, labels, n_start=4000, n_buy=2000, seed=0):
        self.fps = fps
        self.labels = labels
        self.n_buy = n_buy
        self.rng = np.random.default_rng(seed)
        order = self.rng.permutation(len(fps))
        self.known = list(order[:n_start])
        self.unknown = list(order[n_start:])
        self.model = self._make_model()
        self.log = []

    def _make_model(self):
        model = keras.Sequential([
            keras.Input((self.fps.shape[1],), dtype="uint8"),
            layers.Rescaling(1.0),
            layers.Dense(1024, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(256, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(1, activation="sigmoid"),
        ])
        model.compile(
            optimizer=keras.optimizers.Adam(5e-4),
            loss="binary_crossentropy",
            metrics=[keras.metrics.AUC(name="auc")],
        )
        return model

    def fit_round(self, epochs):
        x, y = self.fps[self.known], self.labels[self.known]
        self.model.fit(x, y, batch_size=256, epochs=epochs, verbose=0)

    def uncertainty(self):
        scores = np.empty(len(self.unknown), dtype=np.float32)
        for k, idx in enumerate(self.unknown):
            p = self.model.predict(self.fps[idx][None, :], verbose=0)[0, 0]
            scores[k] = 1.0 - 2.0 * abs(p - 0.5)
        return scores

    def buy(self):
        scores = self.uncertainty()
        pick = np.argsort(-scores)[: self.n_buy]
        chosen = set(pick.tolist())
        self.known += [self.unknown[k] for k in pick]
        self.unknown = [u for k, u in enumerate(self.unknown) if k not in chosen]
        return float(scores[pick].mean())

    def run(self, n_rounds, x_test, y_test):
        for r in range(n_rounds):
            self.fit_round(epochs=20)
            result = self.model.evaluate(x_test, y_test, batch_size=2048, verbose=0, return_dict=True)
            mean_u = self.buy()
            self.log.append((r, len(self.known), result["auc"], mean_u))
            print(f"round {r:2d}  known {len(self.known):6d}  auc {result['auc']:.4f}  unc {mean_u:.3f}")
        self.fit_round(epochs=40)


def main():
    keras.utils.set_random_seed(5)
    data = np.load("herg_library.npz")
    fps, labels = data["fps"], data["blocker"].astype("float32")   # (58213, 2048), (58213,)
    n_test = 6000
    learner = ActiveLearner(fps[n_test:], labels[n_test:])
    learner.run(12, fps[:n_test], labels[:n_test])
    np.savetxt("herg_active_log.csv", np.array(learner.log), delimiter=",",
               header="round,known,auc,uncertainty")
    learner.model.save("herg_active.keras")


if __name__ == "__main__":
    main()
