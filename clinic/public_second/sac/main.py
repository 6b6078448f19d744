import argparse

import gym
import numpy as np
from sac import SAC

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1000000)
args = parser.parse_args()
env = gym.make("HalfCheetah-v3")
agent, data = SAC(env.action_space.shape[0]), []
state = env.reset()
for t in range(args.steps):
    action = env.action_space.sample() if t < 10000 else agent.pi(state[None].astype("float32")).numpy()[0]
    after, reward, done, _ = env.step(action)
    data.append((state, action, [reward], after, [float(done)]))
    state = env.reset() if done else after
    if t >= 1000:
        rows = [data[i] for i in np.random.randint(len(data), size=256)]
        agent.train([np.array(column) for column in zip(*rows)])
