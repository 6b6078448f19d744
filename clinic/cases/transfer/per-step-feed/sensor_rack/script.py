"""Find failing fans in a rack from vibration rows that arrive as JSON lines."""
import json
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

CHANNELS, BATCH, EPOCHS = 256, 128, 30


def record(path, rows=2560):
    g = np.random.default_rng(64)
    with open(path, "w") as f:
        for _ in range(rows):
            bad = int(g.random() < .3)
            v = g.normal(0, 1 + .3 * bad, CHANNELS).round(3)
            f.write(json.dumps({"v": v.tolist(), "bad": bad}) + "\n")


def load(path):
    with open(path) as f:
        events = [json.loads(line) for line in f]
    return [e["v"] for e in events], [float(e["bad"]) for e in events]


class FanNet(tf.Module):
    def __init__(self):
        super().__init__()
        init = tf.random.Generator.from_seed(64)
        self.w1 = tf.Variable(init.normal((CHANNELS, 64)) * .06)
        self.b1 = tf.Variable(tf.zeros(64))
        self.w2 = tf.Variable(init.normal((64, 1)) * .1)

    @tf.function(input_signature=[tf.TensorSpec((None, CHANNELS)), tf.TensorSpec((None,))])
    def step(self, v, bad):
        ws = (self.w1, self.b1, self.w2)
        with tf.GradientTape() as tape:
            logit = (tf.nn.relu(v @ self.w1 + self.b1) @ self.w2)[:, 0]
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(bad, logit))
        for w, g in zip(ws, tape.gradient(loss, ws)):
            w.assign_sub(.05 * g)
        return loss


with tempfile.TemporaryDirectory() as d:
    record(os.path.join(d, "rack.jsonl"))
    v, bad = load(os.path.join(d, "rack.jsonl"))
net = FanNet()
t0 = time.time()
for epoch in range(EPOCHS):
    for at in range(0, len(v), BATCH):
        rows = tf.convert_to_tensor(v[at:at + BATCH], tf.float32)
        marks = tf.convert_to_tensor(bad[at:at + BATCH], tf.float32)
        loss = net.step(rows, marks)
    if epoch % 10 == 9:
        print("epoch", epoch, float(loss))
print(f"{EPOCHS * len(v) // BATCH} steps in {time.time() - t0:.2f} s")
