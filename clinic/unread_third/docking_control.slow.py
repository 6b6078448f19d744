"""Learn a docking controller by differentiating through the simulated approach."""
import tensorflow as tf
from tensorflow import keras

HORIZON = 800
DT = 0.05
N_STARTS = 256
UPDATES = 15
ORBIT = 0.0011


def controller():
    return keras.Sequential([
        keras.layers.Input((6,)),
        keras.layers.Dense(64, activation="tanh"),
        keras.layers.Dense(64, activation="tanh"),
        keras.layers.Dense(3, activation="tanh"),
    ])


def relative_motion(state, thrust):
    """Clohessy-Wiltshire equations, one explicit Euler step."""
    x, y, z, vx, vy, vz = tf.unstack(state, axis=1)
    ax = 3 * ORBIT ** 2 * x + 2 * ORBIT * vy + 0.5 * thrust[:, 0]
    ay = -2 * ORBIT * vx + 0.5 * thrust[:, 1]
    az = -ORBIT ** 2 * z + 0.5 * thrust[:, 2]
    deriv = tf.stack([vx, vy, vz, ax, ay, az], axis=1)
    return state + DT * deriv


class DockingTrainer:
    def __init__(self, lr=2e-3):
        self.policy = controller()
        self.optimizer = keras.optimizers.Adam(lr)
        self.optimizer.build(self.policy.trainable_variables)

    def approach_cost(self, state):
        fuel = tf.zeros([N_STARTS])
        path = tf.zeros([N_STARTS])
        for _ in range(HORIZON):
            thrust = self.policy(state)
            state = relative_motion(state, thrust)
            fuel += tf.reduce_sum(tf.square(thrust), axis=1)
            path += tf.reduce_sum(tf.square(state[:, :3]), axis=1)
        final = tf.reduce_sum(tf.square(state), axis=1)
        return tf.reduce_mean(final + (1e-2 * path + 1e-3 * fuel) / HORIZON)

    @tf.function
    def update(self, state):
        with tf.GradientTape() as tape:
            cost = self.approach_cost(state)
        grads = tape.gradient(cost, self.policy.trainable_variables)
        grads, norm = tf.clip_by_global_norm(grads, 1.0)
        self.optimizer.apply_gradients(zip(grads, self.policy.trainable_variables))
        return cost, norm


def starts():
    place = tf.random.uniform([N_STARTS, 3], -5.0, 5.0)
    drift = tf.random.normal([N_STARTS, 3], stddev=0.05)
    return tf.concat([place, drift], axis=1)


def main():
    keras.utils.set_random_seed(12)
    trainer = DockingTrainer()
    for i in range(UPDATES):
        cost, norm = trainer.update(starts())
        if i % 5 == 0:
            print(f"update {i:3d} cost {float(cost):9.3f} grad {float(norm):.3f}")
    trainer.policy.save("/tmp/docking_policy.keras")


if __name__ == "__main__":
    main()
