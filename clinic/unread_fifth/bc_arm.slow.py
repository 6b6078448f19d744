import os
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers


@dataclass
class BCConfig:
    demo_dir: str = "demos/franka_pick"
    hidden: int = 512
    batch_size: int = 512
    epochs: int = 150
    lr: float = 3e-4
    gripper_weight: float = 0.5
    noise: float = 0.01
    ckpt: str = "bc_franka.weights.h5"


class Demonstrations:
    """All teleoperation episodes, flattened to transitions."""

    def __init__(self, folder):
        joints, goal, act, grip = [], [], [], []
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".npz"):
                continue
            ep = np.load(os.path.join(folder, name))
            n = len(ep["action"])
            joints.append(np.concatenate([ep["q"], ep["dq"], ep["ee_pose"]], axis=1))
            goal.append(np.repeat(ep["goal"][None], n, axis=0))
            act.append(ep["action"])
            grip.append(ep["gripper"])
        self.joints = np.concatenate(joints)          # ~400k x 21
        self.goal = np.concatenate(goal)
        self.act = np.concatenate(act)
        self.grip = np.concatenate(grip).reshape(-1, 1)
        self.mean = self.joints.mean(0)
        self.std = self.joints.std(0) + 1e-6

    def __len__(self):
        return len(self.act)


def build_policy(cfg, demos):
    j = layers.Input((demos.joints.shape[1],))
    g = layers.Input((demos.goal.shape[1],))
    norm = layers.Normalization(mean=demos.mean, variance=demos.std ** 2)
    h = layers.Concatenate()([norm(j), g])
    for _ in range(3):
        h = layers.Dense(cfg.hidden, activation="relu")(h)
        h = layers.LayerNormalization()(h)
    arm = layers.Dense(demos.act.shape[1], name="arm")(h)
    grip = layers.Dense(1, name="gripper")(h)
    return tf.keras.Model([j, g], [arm, grip])


class Cloner:
    def __init__(self, cfg, demos):
        self.cfg = cfg
        self.demos = demos
        self.policy = build_policy(cfg, demos)
        self.opt = tf.keras.optimizers.Adam(cfg.lr)
        self.bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)
        self.arm_loss = tf.keras.metrics.Mean()
        self.grip_loss = tf.keras.metrics.Mean()

    @tf.function
    def update(self, joints, goal, act, grip):
        joints = joints + self.cfg.noise * tf.random.normal(tf.shape(joints))
        with tf.GradientTape() as tape:
            pred, logit = self.policy([joints, goal], training=True)
            arm = tf.reduce_mean(tf.abs(pred - act))
            gl = self.bce(grip, logit)
            loss = arm + self.cfg.gripper_weight * gl
        grads = tape.gradient(loss, self.policy.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.policy.trainable_variables))
        self.arm_loss.update_state(arm)
        self.grip_loss.update_state(gl)

    def train(self):
        d, cfg = self.demos, self.cfg
        steps = len(d) // cfg.batch_size
        for epoch in range(cfg.epochs):
            tic = time.time()
            self.arm_loss.reset_state()
            self.grip_loss.reset_state()
            order = np.random.permutation(len(d))
            for i in range(steps):
                idx = order[i * cfg.batch_size:(i + 1) * cfg.batch_size]
                self.update(
                    tf.convert_to_tensor(d.joints[idx].astype(np.float32)),
                    tf.convert_to_tensor(d.goal[idx].astype(np.float32)),
                    tf.convert_to_tensor(d.act[idx].astype(np.float32)),
                    tf.convert_to_tensor(d.grip[idx].astype(np.float32)),
                )
            print(f"[{epoch:03d}] arm L1 {self.arm_loss.result():.4f} "
                  f"grip {self.grip_loss.result():.4f} ({time.time() - tic:.1f}s)")
        self.policy.save_weights(cfg.ckpt)


if __name__ == "__main__":
    config = BCConfig()
    demos = Demonstrations(config.demo_dir)
    print(len(demos), "transitions")
    Cloner(config, demos).train()
