# Muon tomography of a burial mound.
#
# Muon telescopes around the mound give, for each ray, the opacity (density
# integrated along the path).  We recover the density on a regular grid by
# stochastic descent on the rays, as in Kaczmarz / SIRT, no neural network.
import time

import numpy as np
import tensorflow as tf

SIDE = 240          # voxels along each edge
SAMPLES = 64        # points along a ray
RAYS = 2048         # rays per update
N_RAYS = 60_000
UPDATES = 340
RELAX = 0.3

np_rng = np.random.default_rng(2024)


def phantom():
    """A mound of 1.8 g/cm3 with a stone chamber (2.6) and a void (0.0)."""
    axis = (np.arange(SIDE, dtype=np.float32) + 0.5) / SIDE
    x, y, z = axis[:, None, None], axis[None, :, None], axis[None, None, :]
    body = ((x - 0.5) ** 2 + (y - 0.5) ** 2) / 0.2 + z ** 2 / 0.6 < 1.0
    volume = np.where(body, np.float32(1.8), np.float32(0.0))
    chamber = (np.abs(x - 0.55) < 0.12) & (np.abs(y - 0.5) < 0.08) & (np.abs(z - 0.2) < 0.1)
    volume[chamber] = 2.6
    void = (x - 0.55) ** 2 + (y - 0.5) ** 2 + (z - 0.2) ** 2 < 0.05 ** 2
    volume[void] = 0.0
    return volume.reshape(-1)


def random_rays(n):
    """From a wall (x=0 or y=0) to the opposite one."""
    entry = np_rng.random((n, 3), dtype=np.float32)
    leave = np_rng.random((n, 3), dtype=np.float32)
    wall = np_rng.integers(0, 2, size=n)
    rows = np.arange(n)
    entry[rows, wall] = 0.0
    leave[rows, wall] = 0.9999
    return entry, leave


def opacity_of(volume, entry, leave, chunk=10_000):
    out = []
    s = np.linspace(0.0, 1.0, SAMPLES, dtype=np.float32)
    for i in range(0, len(entry), chunk):
        a, b = entry[i:i + chunk], leave[i:i + chunk]
        points = a[:, None, :] + (b - a)[:, None, :] * s[None, :, None]
        cell = np.clip((points * SIDE).astype(np.int32), 0, SIDE - 1)
        flat = (cell[..., 0] * SIDE + cell[..., 1]) * SIDE + cell[..., 2]
        length = np.linalg.norm(b - a, axis=-1) / SAMPLES
        out.append(volume[flat].sum(axis=1) * length)
    return np.concatenate(out).astype(np.float32)


class Reconstruction(tf.Module):
    def __init__(self):
        super().__init__()
        self.density = tf.Variable(tf.fill([SIDE ** 3], 1.0), name="density")
        self.rate = RELAX * RAYS * SAMPLES / 2.0

    @tf.function
    def update(self, entry, leave, measured):
        s = tf.linspace(0.0, 1.0, SAMPLES)
        points = entry[:, None, :] + (leave - entry)[:, None, :] * s[None, :, None]
        cell = tf.clip_by_value(tf.cast(points * float(SIDE), tf.int32), 0, SIDE - 1)
        flat = (cell[..., 0] * SIDE + cell[..., 1]) * SIDE + cell[..., 2]
        length = tf.norm(leave - entry, axis=-1) / float(SAMPLES)
        with tf.GradientTape() as tape:
            along = tf.gather(self.density, flat)
            opacity = tf.reduce_sum(along, axis=1) * length
            loss = tf.reduce_mean(tf.square(opacity - measured))
        grad = tape.gradient(loss, self.density)
        self.density.scatter_sub(tf.IndexedSlices(self.rate * grad.values, grad.indices))
        return loss


def voxel(x, y, z):
    i, j, k = int(x * SIDE), int(y * SIDE), int(z * SIDE)
    return (i * SIDE + j) * SIDE + k


truth = phantom()
entry, leave = random_rays(N_RAYS)
measured = opacity_of(truth, entry, leave)
measured += np_rng.normal(0.0, 0.01, size=N_RAYS).astype(np.float32)

# places the archaeologists want to see converge: chamber, void, two in the fill
probes = np.array([voxel(0.62, 0.5, 0.2), voxel(0.55, 0.5, 0.2),
                   voxel(0.35, 0.5, 0.2), voxel(0.5, 0.7, 0.3)])

scan = Reconstruction()
trail = []
losses = []

start = time.perf_counter()
for n in range(UPDATES):
    pick = np_rng.integers(0, N_RAYS, size=RAYS)
    loss = scan.update(tf.constant(entry[pick]), tf.constant(leave[pick]),
                       tf.constant(measured[pick]))
    losses.append(loss)
    volume = scan.density.numpy()
    trail.append(volume[probes])
    if (n + 1) % 85 == 0:
        print("update", n + 1, "misfit %.5f" % float(losses[-1]), "probes", trail[-1].round(3))
elapsed = time.perf_counter() - start

trail = np.array(trail)
print("probe drift over the last 50 updates", np.ptp(trail[-50:], axis=0).round(3))
print("TRAIN_SECONDS", round(elapsed, 2))
