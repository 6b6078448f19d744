import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow.keras.layers import Conv1D, Dense, Dropout, Flatten, Input, MaxPooling1D
from tensorflow.keras.models import Sequential

LOOKBACK = 60
COST = 0.0008
SPLIT = "2019-01-01"

prices = pd.read_parquet("sp_close.parquet")      # 3800 days x 180 tickers, adjusted close
prices = prices.dropna(axis=1)
rets = np.log(prices).diff().iloc[1:]
vol = rets.rolling(20).std().bfill()
z = (rets / vol).clip(-5, 5).astype("float32")
fwd = rets.rolling(5).sum().shift(-5)

split = int(rets.index.searchsorted(pd.Timestamp(SPLIT)))
Z = z.to_numpy()
R = rets.to_numpy("float32")
F = fwd.to_numpy("float32")
n_days, n_names = Z.shape
print(n_days, "days", n_names, "names, test starts at", split)


def training_arrays():
    win = np.lib.stride_tricks.sliding_window_view(Z[:split], LOOKBACK, axis=0)
    # win[d, k] ends on day d + LOOKBACK - 1
    target = F[LOOKBACK - 1:split] > 0
    win = win[:-5]
    target = target[:-5]
    x = win.reshape(-1, LOOKBACK, 1)
    return np.ascontiguousarray(x), target.reshape(-1).astype("float32")


x, y = training_arrays()
rng = np.random.default_rng(5)
pick = rng.permutation(len(x))[:300_000]
x, y = x[pick], y[pick]

model = Sequential([
    Input((LOOKBACK, 1)),
    Conv1D(32, 5, activation="relu"),
    MaxPooling1D(2),
    Conv1D(32, 5, activation="relu"),
    Flatten(),
    Dense(64, activation="relu"),
    Dropout(0.3),
    Dense(1, activation="sigmoid"),
])
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["AUC"])
model.fit(x, y, batch_size=1024, epochs=12, validation_split=0.1, verbose=2)


def backtest(model, top=20):
    """Weekly rebalanced long/short on the model score."""
    w = np.zeros(n_names)
    pnl, turnover = [], []
    for day in range(split, n_days - 1):
        if (day - split) % 5 == 0:
            score = np.empty(n_names)
            for k in range(n_names):
                window = Z[day - LOOKBACK + 1:day + 1, k].reshape(1, LOOKBACK, 1)
                score[k] = model.predict(window, verbose=0)[0, 0]
            rank = np.argsort(score)
            new = np.zeros(n_names)
            new[rank[-top:]] = 0.5 / top
            new[rank[:top]] = -0.5 / top
            traded = np.abs(new - w).sum()
            w = new
        else:
            traded = 0.0
        pnl.append(float(w @ R[day + 1]) - COST * traded)
        turnover.append(traded)
    return np.array(pnl), np.array(turnover)


pnl, turnover = backtest(model)
ann = pnl.mean() * 252
print("return  %.2f %%" % (100 * ann))
print("sharpe  %.2f" % (ann / (pnl.std() * np.sqrt(252))))
print("max dd  %.2f %%" % (100 * (np.maximum.accumulate(pnl.cumsum()) - pnl.cumsum()).max()))
print("turnover per week %.2f" % (turnover.sum() / (len(turnover) / 5)))
pd.Series(pnl, index=rets.index[split + 1:n_days]).to_csv("pnl.csv")
model.save("momentum_cnn.keras")
