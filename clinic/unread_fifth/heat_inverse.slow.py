"""Recover the conductivity of a heated plate from thermocouple readings with a PINN.

usage: python heat_inverse.py --readings plate7.csv --iters 40000
"""
import argparse
import csv
import time

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--readings", default="plate7.csv")
parser.add_argument("--iters", type=int, default=40000)
parser.add_argument("--n-colloc", type=int, default=8000)
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--depth", type=int, default=5)
parser.add_argument("--out", default="heat_inverse_log.csv")
args = parser.parse_args()

tf.random.set_seed(3)
rng = np.random.default_rng(3)

# columns: x, y, t, temperature (all scaled to [0, 1])
readings = np.loadtxt(args.readings, delimiter=",", skiprows=1).astype("float32")
xyt_obs = tf.constant(readings[:, :3])
temp_obs = tf.constant(readings[:, 3:4])
xyt_col = tf.constant(rng.uniform(0, 1, (args.n_colloc, 3)).astype("float32"))
xy0 = rng.uniform(0, 1, (2000, 2)).astype("float32")
xyt_ini = tf.constant(np.hstack([xy0, np.zeros((2000, 1), "float32")]))

net = tf.keras.Sequential(
    [tf.keras.Input((3,))]
    + [tf.keras.layers.Dense(args.width, activation="tanh") for _ in range(args.depth)]
    + [tf.keras.layers.Dense(1)]
)
# a throwaway layer keeps log(alpha) next to the other weights
alpha_holder = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer=tf.keras.initializers.Constant(-3.0))
alpha_holder.build((None, 1))

schedule = tf.keras.optimizers.schedules.ExponentialDecay(2e-3, 5000, 0.7)
opt = tf.keras.optimizers.Adam(schedule)
weights = net.trainable_variables + alpha_holder.trainable_variables


def pde_residual(xyt, alpha):
    x, y, t = tf.split(xyt, 3, axis=1)
    with tf.GradientTape(persistent=True) as second:
        second.watch([x, y])
        with tf.GradientTape(persistent=True) as first:
            first.watch([x, y, t])
            u = net(tf.concat([x, y, t], axis=1))
        u_x = first.gradient(u, x)
        u_y = first.gradient(u, y)
        u_t = first.gradient(u, t)
    u_xx = second.gradient(u_x, x)
    u_yy = second.gradient(u_y, y)
    return u_t - alpha * (u_xx + u_yy)


@tf.function
def train_step():
    with tf.GradientTape() as tape:
        alpha = tf.exp(alpha_holder(tf.ones((1, 1))))
        l_pde = tf.reduce_mean(tf.square(pde_residual(xyt_col, alpha)))
        l_obs = tf.reduce_mean(tf.square(net(xyt_obs) - temp_obs))
        l_ini = tf.reduce_mean(tf.square(net(xyt_ini)))
        loss = l_pde + 20.0 * l_obs + 5.0 * l_ini
    grads = tape.gradient(loss, weights)
    opt.apply_gradients(zip(grads, weights))
    return loss, l_pde, l_obs, l_ini, tf.squeeze(alpha)


history = []
t0 = time.time()
for it in range(1, args.iters + 1):
    loss, l_pde, l_obs, l_ini, alpha = train_step()
    history.append([it, loss.numpy(), l_pde.numpy(), l_obs.numpy(), l_ini.numpy(), alpha.numpy()])
    if it % 500 == 0:
        _, a, b, c, d, k = history[-1]
        print(f"{it:6d}  loss {a:.3e}  pde {b:.3e}  obs {c:.3e}  ini {d:.3e}  alpha {k:.5f}  {time.time() - t0:.0f}s")

with open(args.out, "w", newline="") as f:
    w = csv.writer(f)
    w.writerow(["iter", "loss", "pde", "obs", "ini", "alpha"])
    w.writerows(history)

net.save("heat_inverse.keras")
print("estimated alpha:", history[-1][-1])
