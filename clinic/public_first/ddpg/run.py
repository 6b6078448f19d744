import gym
import numpy as np
from ddpg import DDPG
from buffer import ReplayBuffer

env = gym.make("Pendulum-v1")
agent = DDPG(env.action_space.shape[0])
buffer = ReplayBuffer(1000000, env.observation_space.shape, env.action_space.shape)
for episode in range(250):
    observation, done, score = env.reset(), False, 0
    while not done:
        action = agent.choose_action(observation).numpy()
        new, reward, done, _ = env.step(action)
        buffer.store(observation, action, reward, new, done)
        if buffer.count > 64:
            agent.train(*buffer.sample(64))
        observation, score = new, score + reward
    print(episode, score)
