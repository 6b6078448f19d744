import gym
from agent import Agent


def main():
    env = gym.make("PongNoFrameskip-v4")
    agent = Agent(env.action_space.n)
    for episode in range(500):
        obs, done, score = env.reset(), False, 0
        while not done:
            action = agent.choose(obs)
            after, reward, done, info = env.step(action)
            agent.memory.push(obs, action, reward, after, done)
            agent.learn()
            obs, score = after, score + reward
        agent.epsilon = max(0.02, agent.epsilon * 0.99)
        print(episode, score)


if __name__ == "__main__":
    main()
