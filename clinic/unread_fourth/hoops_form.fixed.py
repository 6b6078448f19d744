"""Point-margin regression for basketball from each side's recent form."""
import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow import keras

STATS = ["pts", "allowed", "reb", "tov", "fg3"]
TEAMS = 30


def play_seasons(days, seed=0):
    rng = np.random.default_rng(seed)
    skill = rng.normal(0, 5, TEAMS)
    pairs = rng.random((days, TEAMS)).argsort(axis=1).reshape(-1, 2)
    home, away = pairs[:, 0], pairs[:, 1]
    day = np.repeat(np.arange(days), TEAMS // 2)
    margin = skill[home] - skill[away] + 2.5 + rng.normal(0, 11, len(home))
    base = rng.normal(110, 9, len(home))
    sides = []
    for at_home, team, opp, sign in ((1, home, away, 1), (0, away, home, -1)):
        sides.append(pd.DataFrame({
            "day": day, "team": team, "opp": opp, "home": at_home,
            "pts": base + sign * margin / 2, "allowed": base - sign * margin / 2,
            "reb": rng.normal(44, 5, len(team)), "tov": rng.normal(14, 3, len(team)),
            "fg3": rng.normal(0.36, 0.06, len(team)),
        }))
    return pd.concat(sides).sort_values("day", kind="stable", ignore_index=True)


class FormBook:
    """Adds the averages of a side's last games to every row of the box-score table."""

    def __init__(self, window=10):
        self.window = window
        self.columns = [f"{s}_avg" for s in STATS]

    def _recent(self, column):
        return column.shift().rolling(self.window, min_periods=1).mean()

    def attach(self, table):
        form = table.groupby("team")[STATS].transform(self._recent)
        return table.join(form.fillna(0.0).add_suffix("_avg"))

    def matchups(self, table):
        full = self.attach(table)
        home, away = full[full["home"] == 1], full[full["home"] == 0]
        games = home.merge(away, left_on=["day", "team"], right_on=["day", "opp"],
                           suffixes=("_h", "_a"))
        cols = [f"{c}_{s}" for s in "ha" for c in self.columns]
        games = games[games["day"] >= self.window].sort_values("day")
        x = games[cols].to_numpy("float32")
        y = (games["pts_h"] - games["allowed_h"]).to_numpy("float32")
        return x, y


class MarginTrainer:
    def __init__(self, n_in, lr=1e-3):
        self.norm = keras.layers.Normalization()
        self.net = keras.Sequential([
            keras.Input((n_in,)), self.norm,
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(1),
        ])
        self.opt = keras.optimizers.Adam(lr)
        self.mse, self.mae = keras.metrics.Mean(), keras.metrics.MeanAbsoluteError()

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.net(x, training=True)[:, 0] - y))
        v = self.net.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, v), v))
        self.mse.update_state(loss)

    @tf.function
    def check(self, x, y):
        self.mae.update_state(y, self.net(x, training=False)[:, 0])

    def fit(self, train, test, epochs):
        self.norm.adapt(train[0])
        tr = (tf.data.Dataset.from_tensor_slices(train).shuffle(len(train[1]))
              .batch(256).prefetch(tf.data.AUTOTUNE))
        te = tf.data.Dataset.from_tensor_slices(test).batch(1024).prefetch(1)
        for epoch in range(epochs):
            for x, y in tr:
                self.step(x, y)
            for x, y in te:
                self.check(x, y)
            print(epoch, float(self.mse.result()), float(self.mae.result()))
            self.mse.reset_state()
            self.mae.reset_state()


def main():
    x, y = FormBook(window=10).matchups(play_seasons(days=82 * 15))
    cut = int(0.85 * len(y))
    MarginTrainer(x.shape[1]).fit((x[:cut], y[:cut]), (x[cut:], y[cut:]), epochs=60)


if __name__ == "__main__":
    main()
