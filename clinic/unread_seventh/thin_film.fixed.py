# %% [markdown]
# # Inverting thin-film reflectance
# Given a reflectance spectrum, get back the thickness of each of six layers.
# Project for the optics lab course; network and optimiser are from scratch, no Keras.

# %%
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(2024)
tf.random.set_seed(2024)

N_FILMS = 300_000
N_VALID = 20_480
N_LAYERS = 6
WAVELENGTHS = np.linspace(0.40, 0.90, 256)          # micrometres
INDEX = np.array([1.46, 2.35, 1.46, 2.35, 1.46, 2.10])


# %%
def reflectance(thickness):
    """First-order interference of the interfaces (single reflections only)."""
    n = np.concatenate([[1.0], INDEX, [3.9]])
    r = (n[:-1] - n[1:]) / (n[:-1] + n[1:])
    path = np.cumsum(INDEX * thickness, axis=1)
    real = np.full((len(thickness), len(WAVELENGTHS)), r[0])
    imag = np.zeros_like(real)
    for j in range(N_LAYERS):
        phase = 4 * np.pi * path[:, j:j + 1] / WAVELENGTHS
        real += r[j + 1] * np.cos(phase)
        imag += r[j + 1] * np.sin(phase)
    return real ** 2 + imag ** 2


thickness = rng.uniform(0.02, 0.40, size=(N_FILMS, N_LAYERS))
spectra = reflectance(thickness)
spectra += rng.normal(0.0, 0.002, size=spectra.shape)
print(spectra.shape, "min/max", spectra.min(), spectra.max())

# %%
plt.figure(figsize=(6, 3))
plt.plot(WAVELENGTHS, spectra[:4].T)
plt.xlabel("wavelength [um]")
plt.ylabel("R")
plt.savefig("examples.png", dpi=120)
plt.close()

# %%
x_mean, x_std = spectra.mean(axis=0), spectra.std(axis=0)
y_mean, y_std = thickness.mean(axis=0), thickness.std(axis=0).astype(np.float32)
x = ((spectra - x_mean) / x_std).astype(np.float32)
y = ((thickness - y_mean) / y_std).astype(np.float32)

x_train, y_train = tf.constant(x[N_VALID:]), tf.constant(y[N_VALID:])
x_valid, y_valid = tf.constant(x[:N_VALID]), tf.constant(y[:N_VALID])
del spectra, x, y


# %%
class Linear(tf.Module):
    def __init__(self, n_in, n_out, gain=2.0):
        super().__init__()
        w = rng.normal(0.0, np.sqrt(gain / n_in), size=(n_in, n_out))
        self.w = tf.Variable(w.astype(np.float32))
        self.b = tf.Variable(np.zeros(n_out, np.float32))

    def __call__(self, h):
        return tf.matmul(h, self.w) + self.b


class Inverter(tf.Module):
    def __init__(self, widths):
        super().__init__()
        self.hidden = [Linear(a, b) for a, b in zip(widths[:-2], widths[1:-1])]
        self.out = Linear(widths[-2], widths[-1], gain=1.0)

    def __call__(self, h):
        for layer in self.hidden:
            h = tf.nn.silu(layer(h))
        return self.out(h)


class Adam(tf.Module):
    def __init__(self, params, lr, b1=0.9, b2=0.999, eps=1e-7):
        super().__init__()
        self.params, self.b1, self.b2, self.eps = params, b1, b2, eps
        self.lr = tf.Variable(lr, dtype=params[0].dtype, trainable=False)
        self.t = tf.Variable(0.0, dtype=params[0].dtype, trainable=False)
        self.m = [tf.Variable(tf.zeros_like(p), trainable=False) for p in params]
        self.v = [tf.Variable(tf.zeros_like(p), trainable=False) for p in params]

    def apply(self, grads):
        self.t.assign_add(1.0)
        scale = self.lr * tf.sqrt(1.0 - self.b2 ** self.t) / (1.0 - self.b1 ** self.t)
        for p, g, m, v in zip(self.params, grads, self.m, self.v):
            m.assign(self.b1 * m + (1.0 - self.b1) * g)
            v.assign(self.b2 * v + (1.0 - self.b2) * tf.square(g))
            p.assign_sub(scale * m / (tf.sqrt(v) + self.eps))


# %%
BATCH, EPOCHS, LR = 4096, 200, 1e-3
net = Inverter([len(WAVELENGTHS), 2048, 2048, 2048, 2048, N_LAYERS])
opt = Adam(list(net.trainable_variables), LR)


@tf.function(jit_compile=True)
def train_step(rows):
    xb, yb = tf.gather(x_train, rows), tf.gather(y_train, rows)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(xb) - yb))
    opt.apply(tape.gradient(loss, opt.params))
    return loss


@tf.function
def run_epoch(order):
    total = tf.zeros([], x_train.dtype)
    for rows in order:
        total += train_step(rows)
    return total / tf.cast(tf.shape(order)[0], x_train.dtype)


@tf.function
def valid_rmse():
    return tf.sqrt(tf.reduce_mean(tf.square((net(x_valid) - y_valid) * y_std), axis=0))


# %%
n = x_train.shape[0] // BATCH * BATCH
curve = []
for epoch in range(EPOCHS):
    opt.lr.assign(LR * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS)))
    order = tf.constant(rng.permutation(x_train.shape[0])[:n].reshape(-1, BATCH))
    loss = float(run_epoch(order))
    curve.append(loss)
    if epoch % 10 == 0 or epoch == EPOCHS - 1:
        nm = 1000 * valid_rmse().numpy()
        print(f"epoch {epoch:3d}  mse {loss:.5f}  rmse [nm] {np.round(nm, 2)}")

# %%
plt.semilogy(curve)
plt.xlabel("epoch")
plt.ylabel("training MSE")
plt.savefig("curve.png", dpi=120)
tf.train.Checkpoint(net=net).write("inverter")
