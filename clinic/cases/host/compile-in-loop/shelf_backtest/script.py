"""Backtest of the shelf-demand forecaster: rolling weekly cutoffs, one regression per cutoff."""
import time

import numpy as np
import keras

WEEKS, SHELVES, FEATURES = 60, 220, 40


class ShelfForecaster:
    """Estimator with the usual fit / predict / get_params."""

    def __init__(self, hidden=(96, 48), dropout=0.1, lr=2e-3, epochs=6, batch_size=128, seed=7):
        self.hidden, self.dropout, self.lr = hidden, dropout, lr
        self.epochs, self.batch_size, self.seed = epochs, batch_size, seed

    def get_params(self):
        return {k: getattr(self, k) for k in ("hidden", "dropout", "lr", "epochs", "batch_size", "seed")}

    def _network(self, width):
        stack = [keras.Input((width,))]
        for units in self.hidden:
            stack += [keras.layers.Dense(units, activation="relu"), keras.layers.Dropout(self.dropout)]
        net = keras.Sequential(stack + [keras.layers.Dense(1, activation="softplus")])
        net.compile(optimizer=keras.optimizers.Adam(self.lr), loss="poisson", metrics=["mae"])
        return net

    def fit(self, x, y):
        keras.utils.set_random_seed(self.seed)
        self.net_ = self._network(x.shape[1])
        self.net_.fit(x, y, epochs=self.epochs, batch_size=self.batch_size, verbose=0)
        return self

    def predict(self, x):
        return self.net_.predict(x, batch_size=1024, verbose=0)[:, 0]


def clone(estimator):
    return type(estimator)(**estimator.get_params())


def demand_panel(seed=33):
    rng = np.random.default_rng(seed)
    shelf = rng.normal(0, 1, (1, SHELVES, 8))
    season = np.sin(np.arange(WEEKS) / 52 * 2 * np.pi)[:, None, None] * np.ones((1, SHELVES, 2))
    promo = rng.random((WEEKS, SHELVES, 4)) < 0.1
    rest = rng.normal(0, 1, (WEEKS, SHELVES, FEATURES - 14))
    x = np.concatenate([np.repeat(shelf, WEEKS, 0), season, promo, rest], axis=2).astype("float32")
    rate = np.exp(0.4 * x[..., 0] + 0.5 * season[..., 0] + 0.7 * promo[..., 0] + 1.0)
    return x, rng.poisson(rate).astype("float32")


def cutoffs(first, last):
    for week in range(first, last):
        yield slice(week - 10, week), week


def backtest(template, x, y, first, last):
    rows, errors = 0, []
    for past, week in cutoffs(first, last):
        model = clone(template)
        xt, yt = x[past].reshape(-1, FEATURES), y[past].reshape(-1)
        model.fit(xt, yt)
        forecast = model.predict(x[week])
        errors.append(np.abs(forecast - y[week]).sum() / y[week].sum())
        rows += len(xt) * model.epochs
    return rows, errors


if __name__ == "__main__":
    x, y = demand_panel()
    began = time.perf_counter()
    rows, errors = backtest(ShelfForecaster(), x, y, first=40, last=51)
    seconds = time.perf_counter() - began
    print(f"WAPE {np.mean(errors):.3f} +- {np.std(errors):.3f} over {len(errors)} cutoffs")
    print("WORK", rows)
    print(f"TRAIN_SECONDS {seconds:.3f}")
