import gym
import numpy as np
import tensorflow as tf

env = gym.make("CartPole-v0")
inputs = tf.keras.Input(4)
common = tf.keras.layers.Dense(128, activation="relu")(inputs)
model = tf.keras.Model(inputs, [tf.keras.layers.Dense(2)(common), tf.keras.layers.Dense(1)(common)])
optimizer = tf.keras.optimizers.Adam(0.01)
huber = tf.keras.losses.Huber(reduction="sum")


def env_step(action):
    state, reward, done, _ = env.step(action)
    return state.astype(np.float32), np.array(reward, np.int32), np.array(done, np.int32)


def run_episode(initial, max_steps):
    probs, values, rewards = (tf.TensorArray(tf.float32, size=0, dynamic_size=True) for _ in range(3))
    state = initial
    for t in tf.range(max_steps):
        logits, value = model(tf.expand_dims(state, 0))
        action = tf.random.categorical(logits, 1)[0, 0]
        values = values.write(t, tf.squeeze(value))
        probs = probs.write(t, tf.nn.softmax(logits)[0, action])
        state, reward, done = tf.numpy_function(env_step, [action], [tf.float32, tf.int32, tf.int32])
        state.set_shape(initial.shape)
        rewards = rewards.write(t, tf.cast(reward, tf.float32))
        if tf.cast(done, tf.bool):
            break
    return probs.stack(), values.stack(), rewards.stack()


@tf.function
def train_step(initial, max_steps):
    with tf.GradientTape() as tape:
        probs, values, rewards = run_episode(initial, max_steps)
        returns = tf.cumsum(rewards, reverse=True)
        loss = -tf.reduce_sum(tf.math.log(probs + 1e-8) * (returns - values)) + huber(values, returns)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return tf.reduce_sum(rewards)


for i in range(2000):
    reward = float(train_step(tf.constant(env.reset(), dtype=tf.float32), tf.constant(500)))
    if i % 50 == 0:
        print(i, reward)
