import numpy as np
import tensorflow as tf
from networks import Actor, Critic


class DDPG:
    def __init__(self, actions, tau=0.005, gamma=0.99):
        self.actor, self.target_actor = Actor(actions), Actor(actions)
        self.critic, self.target_critic = Critic(), Critic()
        self.tau, self.gamma = tau, gamma
        self.actor_opt = tf.keras.optimizers.Adam(1e-4)
        self.critic_opt = tf.keras.optimizers.Adam(1e-3)

    def choose_action(self, observation):
        return self.actor(tf.convert_to_tensor([observation], dtype=tf.float32))[0]

    def soft_update(self):
        for net, target in ((self.actor, self.target_actor), (self.critic, self.target_critic)):
            target.set_weights([self.tau * w + (1 - self.tau) * t for w, t in zip(net.weights, target.get_weights())])

    def train(self, states, actions, rewards, next_states, dones):
        with tf.GradientTape() as tape:
            target_actions = self.target_actor(next_states)
            next_q = tf.squeeze(self.target_critic(next_states, target_actions), 1)
            q = tf.squeeze(self.critic(states, actions), 1)
            loss = tf.keras.losses.MSE(rewards + self.gamma * next_q * (1 - dones), q)
        grads = tape.gradient(loss, self.critic.trainable_variables)
        self.critic_opt.apply_gradients(zip(grads, self.critic.trainable_variables))
        with tf.GradientTape() as tape:
            actor_loss = -tf.math.reduce_mean(self.critic(states, self.actor(states)))
        grads = tape.gradient(actor_loss, self.actor.trainable_variables)
        self.actor_opt.apply_gradients(zip(grads, self.actor.trainable_variables))
        self.soft_update()
