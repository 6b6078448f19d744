# %% [markdown]
# # Expected goals from event data
# All shots of five leagues, 2015/16 - 2022/23 (StatsBomb-like export)

# %%
import json
import os

import keras
import numpy as np
import pandas as pd
from keras import layers

# %%
shots = pd.read_csv("/kaggle/input/shots-big5/shots.csv")      # 341,208 rows
shots = shots[shots["situation"] != "penalty"].reset_index(drop=True)

GOAL_X, GOAL_Y, HALF = 105.0, 34.0, 3.66
dx = GOAL_X - shots["x"].to_numpy()
dy = shots["y"].to_numpy() - GOAL_Y
shots["dist"] = np.hypot(dx, dy)
shots["angle"] = np.abs(np.arctan2(dy + HALF, dx) - np.arctan2(dy - HALF, dx))
shots["minute_sc"] = shots["minute"] / 90.0

num_cols = ["dist", "angle", "minute_sc", "gk_dist", "n_defenders_in_cone",
            "pressure", "score_diff"]
cat = pd.get_dummies(shots[["body_part", "situation", "assist_type"]], dtype="float32")
num = shots[num_cols].astype("float32")
num = (num - num.mean()) / num.std()
X = np.hstack([num.to_numpy("float32"), cat.to_numpy("float32")])
y = shots["goal"].to_numpy("float32")

is_val = shots["season"].to_numpy() == "2022/23"
Xtr, ytr = X[~is_val], y[~is_val]
Xva, yva = X[is_val], y[is_val]
print(Xtr.shape, Xva.shape)


# %%
def calibration_table(p, y, bins=10):
    edges = np.quantile(p, np.linspace(0, 1, bins + 1))
    which = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, bins - 1)
    rows = []
    for b in range(bins):
        m = which == b
        if m.any():
            rows.append({"p": float(p[m].mean()), "freq": float(y[m].mean()), "n": int(m.sum())})
    return rows


class BrierKeeper(keras.callbacks.Callback):
    """Keeps the weights with the best out-of-season Brier score."""

    def __init__(self, X, y, out_dir):
        super().__init__()
        self.X, self.y = X, y
        self.out_dir = out_dir
        self.best = np.inf
        self.curve = []
        os.makedirs(out_dir, exist_ok=True)

    def on_epoch_end(self, epoch, logs=None):
        p = self.model.predict(self.X, batch_size=4096, verbose=0)[:, 0]
        brier = float(np.mean((p - self.y) ** 2))
        self.curve.append(brier)
        if brier < self.best:
            self.best = brier
            self.model.save_weights(os.path.join(self.out_dir, "best.weights.h5"))
            with open(os.path.join(self.out_dir, "calibration.json"), "w") as f:
                json.dump(calibration_table(p, self.y), f)


# %%
model = keras.Sequential([
    keras.Input((X.shape[1],)),
    layers.Dense(128, activation="relu"),
    layers.Dropout(0.1),
    layers.Dense(64, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="binary_crossentropy")

keeper = BrierKeeper(Xva, yva, "xg_out")
model.fit(Xtr, ytr, batch_size=512, epochs=25, callbacks=[keeper], verbose=2)

# %%
model.load_weights("xg_out/best.weights.h5")
p = model.predict(Xva, batch_size=4096, verbose=0)[:, 0]
print("best Brier", keeper.best)
print("xG total", p.sum(), "goals", yva.sum())
team = shots.loc[is_val, ["team"]].assign(xg=p, goal=yva)
print(team.groupby("team").sum().assign(diff=lambda d: d.goal - d.xg).sort_values("diff").round(1))
