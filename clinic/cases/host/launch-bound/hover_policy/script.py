"""Policy-gradient training of a hovering drone controller in a batched simulator."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import jax.numpy as jnp
import numpy as np

SMALL = os.environ.get("SMALL") == "1"
DRONES = 32 if SMALL else 512
HORIZON = 16 if SMALL else 128
ITERATIONS = 10 if SMALL else 500
WARM = 3 if SMALL else 10
WIDTH = 32 if SMALL else 256
PASSES, DT = 4, 0.05


def init(seed=0):
    rng = np.random.default_rng(seed)
    sizes = [6, WIDTH, WIDTH, 3]
    return [{"w": jnp.asarray(rng.normal(0, a ** -0.5, (a, b)), jnp.float32), "b": jnp.zeros(b)}
            for a, b in zip(sizes[:-1], sizes[1:])]


def policy(params, obs):
    h = obs
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return h @ params[-1]["w"] + params[-1]["b"]


@jax.jit
def observe(state, stats):
    raw = jnp.concatenate([state["position"], state["velocity"]], axis=1)
    mean = 0.995 * stats["mean"] + 0.005 * raw.mean(axis=0)
    spread = 0.995 * stats["spread"] + 0.005 * raw.std(axis=0)
    return (raw - mean) / (spread + 1e-3), {"mean": mean, "spread": spread}


@jax.jit
def act(params, obs, key, t):
    noise = jax.random.normal(jax.random.fold_in(key, t), (DRONES, 3))
    return policy(params, obs) + 0.3 * noise


@jax.jit
def fly(state, action):
    thrust = jnp.clip(action, -2, 2) - 0.2 * state["velocity"]
    velocity = state["velocity"] + DT * thrust
    position = state["position"] + DT * velocity
    reward = -jnp.square(position).sum(axis=1) - 0.01 * jnp.square(action).sum(axis=1)
    return {"position": position, "velocity": velocity}, reward


def rollout(params, stats, key):
    state = {"position": jax.random.normal(key, (DRONES, 3)), "velocity": jnp.zeros((DRONES, 3))}
    seen, actions, rewards = [], [], []
    for t in range(HORIZON):
        obs, stats = observe(state, stats)
        action = act(params, obs, key, t)
        state, reward = fly(state, action)
        seen.append(obs)
        actions.append(action)
        rewards.append(reward)
    return (seen, actions, rewards), stats


@jax.jit
def improve(params, trajectory):
    obs, action, reward = (jnp.stack(part) for part in trajectory)
    gain = jax.lax.scan(lambda g, r: (0.97 * g + r,) * 2, jnp.zeros(DRONES), reward, reverse=True)[1]
    advantage = (gain - gain.mean(axis=1, keepdims=True)) / (gain.std() + 1e-6)

    def loss_fn(p):
        error = jnp.square(action - policy(p, obs)).sum(axis=-1)
        return (error * jnp.clip(advantage, -3, 3)).mean()

    for _ in range(PASSES):
        loss, grads = jax.value_and_grad(loss_fn)(params)
        params = jax.tree.map(lambda p, g: p - 1e-3 * jnp.clip(g, -1, 1), params, grads)
    return params, loss, reward.mean()


def main():
    params, key = init(), jax.random.key(1)
    stats = {"mean": jnp.zeros(6), "spread": jnp.ones(6)}
    for i in range(WARM + ITERATIONS):
        if i == WARM:
            jax.block_until_ready(params)
            began = time.perf_counter()
        trajectory, stats = rollout(params, stats, jax.random.fold_in(key, i))
        params, loss, reward = improve(params, trajectory)
    jax.block_until_ready(params)
    took = time.perf_counter() - began
    print(f"steady_ms={1e3 * took / ITERATIONS:.3f} loss={float(loss):.4f} reward={float(reward):.3f}")


if __name__ == "__main__":
    main()
