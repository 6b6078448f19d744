# Fit feed/kill/diffusion of a Gray-Scott system to microscope frames of a gel reactor.
import numpy as np
import tensorflow as tf

N_STEPS = 800          # solver steps between the first and the last frame
ITERS = 60
DT = 1.0

frames = np.load("gel_reactor.npz")
start = tf.constant(frames["first"].astype(np.float32))     # (8, 128, 128, 2)
final = tf.constant(frames["last"].astype(np.float32))


STENCIL = np.array([[0.05, 0.2, 0.05], [0.2, -1.0, 0.2], [0.05, 0.2, 0.05]], np.float32)
KERNEL = tf.constant(np.repeat(STENCIL[:, :, None, None], 2, axis=2))


def laplacian(state):
    # no flux through the dish wall
    padded = tf.pad(state, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="SYMMETRIC")
    return tf.nn.depthwise_conv2d(padded, KERNEL, strides=[1, 1, 1, 1], padding="VALID")


class GrayScott(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.theta = self.add_weight(
            name="theta", shape=(4,),
            initializer=lambda shape, dtype=None: tf.constant([-3.0, -2.6, 0.0, -0.9], dtype or tf.float32),
        )

    def coefficients(self):
        feed = tf.exp(self.theta[0])
        kill = tf.exp(self.theta[1])
        du = tf.sigmoid(self.theta[2] + 2.0)
        dv = tf.sigmoid(self.theta[3] + 0.9)
        return feed, kill, du, dv

    def react(self, state, feed, kill, diffusion):
        u, v = tf.unstack(state, axis=-1)
        uvv = u * v * v
        source = tf.stack([feed * (1.0 - u) - uvv, uvv - (feed + kill) * v], axis=-1)
        return tf.clip_by_value(state + DT * (diffusion * laplacian(state) + source), 0.0, 1.0)

    def call(self, state):
        feed, kill, du, dv = self.coefficients()
        diffusion = tf.stack([du, dv])
        for _ in range(N_STEPS):
            state = self.react(state, feed, kill, diffusion)
        return state


def spectrum(z):
    f = tf.signal.rfft2d(z[..., 1])
    return tf.math.log1p(tf.math.real(f * tf.math.conj(f)))


solver = GrayScott()
optimizer = tf.keras.optimizers.Adam(0.01)


@tf.function
def fit_step():
    with tf.GradientTape() as tape:
        sim = solver(start)
        pixel = tf.reduce_mean(tf.square(sim - final))
        spec = tf.reduce_mean(tf.abs(spectrum(sim) - spectrum(final)))
        loss = pixel + 0.05 * spec
    grads = tape.gradient(loss, solver.trainable_variables)
    grads, _ = tf.clip_by_global_norm(grads, 1.0)
    optimizer.apply_gradients(zip(grads, solver.trainable_variables))
    return loss, pixel, spec


for it in range(1, ITERS + 1):
    loss, pixel, spec = fit_step()
    if it % 10 == 0:
        f, k, du, dv = [float(c) for c in solver.coefficients()]
        print(f"{it:4d} loss {float(loss):.5f} F={f:.4f} k={k:.4f} Du={du:.3f} Dv={dv:.3f}")

np.savetxt("gray_scott_theta.txt", solver.theta.numpy())
