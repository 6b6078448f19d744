# Random search over 1-D ResNets for PTB-XL superclasses (5 labels, multi-label).
# folds 1-8 train, 9 valid, 10 held out
import json
import os
import random

import keras
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from keras import layers
from sklearn.metrics import roc_auc_score

INPUT = "../input/ptbxl-superclass-100hz"
N_TRIALS = 80
EPOCHS = 25
SEED = 77

keras.utils.set_random_seed(SEED)
keras.mixed_precision.set_global_policy("mixed_float16")

d = np.load(os.path.join(INPUT, "ptbxl_100hz.npz"))
X, Y, FOLD = d["signal"].astype("float32"), d["label"].astype("float32"), d["fold"]
X = (X - X.mean(axis=(0, 1))) / X.std(axis=(0, 1))
x_tr, y_tr = X[FOLD <= 8], Y[FOLD <= 8]
x_va, y_va = X[FOLD == 9], Y[FOLD == 9]
x_te, y_te = X[FOLD == 10], Y[FOLD == 10]
print("train", x_tr.shape, "valid", x_va.shape, "test", x_te.shape)

SPACE = {
    "width": [64, 96, 128],
    "kernel": [7, 11, 15],
    "blocks": [2, 3],
    "dropout": [0.0, 0.2, 0.4],
    "lr": [3e-4, 1e-3, 2e-3],
    "weight_decay": [1e-4, 1e-3, 1e-2],
    "batch_size": [128, 256],
}


def sample_params(rng):
    return {k: rng.choice(v) for k, v in SPACE.items()}


def res_block(x, ch, kernel, stride):
    skip = x
    y = layers.Conv1D(ch, kernel, strides=stride, padding="same", use_bias=False)(x)
    y = layers.BatchNormalization()(y)
    y = layers.ReLU()(y)
    y = layers.Conv1D(ch, kernel, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization()(y)
    if stride > 1 or skip.shape[-1] != ch:
        skip = layers.Conv1D(ch, 1, strides=stride, padding="same", use_bias=False)(skip)
        skip = layers.BatchNormalization()(skip)
    return layers.ReLU()(layers.Add()([y, skip]))


def make_model(p):
    inp = keras.Input(x_tr.shape[1:])
    x = layers.Conv1D(p["width"], 15, strides=2, padding="same", use_bias=False)(inp)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    for stage in range(4):
        ch = p["width"] * 2 ** stage
        for b in range(p["blocks"]):
            x = res_block(x, ch, p["kernel"], 2 if b == 0 and stage > 0 else 1)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(p["dropout"])(x)
    out = layers.Dense(y_tr.shape[1], activation="sigmoid", dtype="float32")(x)
    return keras.Model(inp, out)


def run_trial(p):
    model = make_model(p)
    steps = len(x_tr) // p["batch_size"] * EPOCHS
    model.compile(
        optimizer=keras.optimizers.AdamW(
            keras.optimizers.schedules.CosineDecay(p["lr"], steps),
            weight_decay=p["weight_decay"]),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(multi_label=True, name="auc")],
    )
    hist = model.fit(
        x_tr, y_tr,
        batch_size=p["batch_size"],
        epochs=EPOCHS,
        validation_data=(x_va, y_va),
        callbacks=[keras.callbacks.EarlyStopping("val_auc", mode="max", patience=6,
                                                 restore_best_weights=True)],
        verbose=0,
    )
    return model, hist


# ---------------------------------------------------------------- search
rng = random.Random(SEED)
trials = []
best_auc = 0.0
for i in range(N_TRIALS):
    params = sample_params(rng)
    model, hist = run_trial(params)
    auc = max(hist.history["val_auc"])
    trials.append({"params": params, "auc": auc, "history": hist})
    print(f"[{i + 1:02d}/{N_TRIALS}] auc={auc:.4f} best={max(best_auc, auc):.4f} {params}", flush=True)
    if auc > best_auc:
        best_auc = auc
        model.save("best.keras")

# ---------------------------------------------------------------- report
trials.sort(key=lambda t: -t["auc"])
with open("trials.json", "w") as fh:
    json.dump([{"params": t["params"], "auc": t["auc"]} for t in trials], fh, indent=1)

fig, ax = plt.subplots(figsize=(7, 4))
for t in trials[:10]:
    ax.plot(t["history"].history["val_auc"], label=f"w{t['params']['width']} k{t['params']['kernel']}")
ax.set_xlabel("epoch")
ax.set_ylabel("validation AUC")
ax.legend(fontsize=7)
fig.savefig("top10.png", dpi=130)

best = keras.models.load_model("best.keras")
pred = best.predict(x_te, batch_size=512, verbose=0)
print("held-out macro AUC", roc_auc_score(y_te, pred, average="macro"))
for k in trials[0]["params"]:
    print(f"  {k:>14}: {trials[0]['params'][k]}")
