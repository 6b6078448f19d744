"""Losses of healthy training runs, drawn with a seed, as the recorder would see them.

Nobody knows the true distribution of healthy runs. The kinds are those that reports and courses show: exponential and
power-law falls with the noise of small batches, warm-up, rates that decay or restart, losses near zero, plateaus before
a fall, training that has ended, alternating losses of a generator and a critic, losses and rewards of agents, heavy
tails, noise that drifts. A healthy run is long enough for its fall: its time constant is at most a third of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Random = np.random.Generator
EARLY_LOOKS, EARLY_S, LATER_S = 40, 0.05, 0.25  # as slowtrain.capture.process.periodic_samples takes them


@dataclass(frozen=True)
class SimulatedRun:
    """``points``: step, loss, and the number of steps over which the loss is a mean. ``in_fit``: reported by Keras."""

    kind: str
    points: np.ndarray[Any, Any]
    in_fit: bool


def exponential_fall(rng: Random, steps: int) -> Any:
    constant = steps * rng.uniform(0.02, 1 / 3)
    floor = rng.uniform(0.0, 0.8)
    return floor + (1 - floor) * np.exp(-np.arange(steps) / constant)


def power_fall(rng: Random, steps: int) -> Any:
    start = max(steps * rng.uniform(0.001, 0.02), 1.0)
    floor = rng.uniform(0.0, 0.5)
    return floor + (1 - floor) * (1 + np.arange(steps) / start) ** -rng.uniform(0.2, 1.0)


def with_warm_up(rng: Random, steps: int) -> Any:
    """The rate grows from zero over the first twentieth to fifth of the run."""
    warm = int(steps * rng.uniform(0.05, 0.2))
    rate = np.minimum(np.arange(steps) / warm, 1.0)
    floor = rng.uniform(0.0, 0.5)
    return floor + (1 - floor) * np.exp(-np.cumsum(rate) / (steps * rng.uniform(0.02, 0.25)))


def with_cosine(rng: Random, steps: int) -> Any:
    """The rate falls to zero: the noise floor falls with it."""
    rate = 0.5 * (1 + np.cos(np.pi * np.arange(steps) / steps))
    floor = rng.uniform(0.05, 0.3)
    return floor * (0.5 + 0.5 * rate) + (1 - floor) * np.exp(-np.cumsum(rate) / (steps * rng.uniform(0.02, 0.2)))


def with_steps_down(rng: Random, steps: int) -> Any:
    """The rate is divided by ten at a half and at three quarters of the run; each time the loss falls at once."""
    drop = rng.uniform(0.5, 0.9)
    level = np.where(np.arange(steps) < steps / 2, 1.0, np.where(np.arange(steps) < 0.75 * steps, drop, drop**1.5))
    return level * (rng.uniform(0.2, 0.6) + np.exp(-np.arange(steps) / (steps * rng.uniform(0.02, 0.12))))


def with_restarts(rng: Random, steps: int) -> Any:
    """The rate restarts; the loss rises a little, and falls further."""
    cycle = (np.arange(steps) * rng.integers(2, 5) / steps) % 1
    return exponential_fall(rng, steps) * (1 + rng.uniform(0.1, 0.5) * (1 - cycle))


def near_zero(rng: Random, steps: int) -> Any:
    return np.exp(-np.arange(steps) / (steps * rng.uniform(0.02, 0.2))) + 1e-7


def plateau_first(rng: Random, steps: int) -> Any:
    """A symmetry holds the loss for a while, then it falls."""
    at, width = steps * rng.uniform(0.1, 0.7), steps * rng.uniform(0.01, 0.06)
    return 0.2 + 0.8 / (1 + np.exp((np.arange(steps) - at) / width))


def already_trained(rng: Random, steps: int) -> Any:
    return np.full(steps, 1.0) - rng.uniform(0, 0.02) * np.arange(steps) / steps


def adversarial(rng: Random, steps: int) -> Any:
    """One of two losses that hold each other: a slow wave and a random walk about a level."""
    wave = rng.uniform(0.0, 0.3) * np.sin(np.arange(steps) * rng.uniform(1, 12) * np.pi / steps + rng.uniform(0, 6))
    return np.exp(wave + drifting(rng, steps) * rng.uniform(0.2, 1.0))


def agent_value_error(rng: Random, steps: int) -> Any:
    """The error of a value network grows while the agent finds rewards, and falls later."""
    rise = 1 / (1 + np.exp(-(np.arange(steps) / steps - rng.uniform(0.1, 0.6)) * rng.uniform(5, 30)))
    return (0.1 + rng.uniform(0.5, 20) * rise) * np.exp(0.5 * drifting(rng, steps))


def agent_policy_loss(rng: Random, steps: int) -> Any:
    return rng.normal(0, 1) * 0.1 + 0.3 * drifting(rng, steps)


def negative_reward(rng: Random, steps: int) -> Any:
    return -(1 - exponential_fall(rng, steps)) - 0.1


def drifting(rng: Random, steps: int) -> Any:
    """A random walk that is drawn back to zero, with a spread of one."""
    knots = rng.normal(size=int(rng.integers(8, 60)))
    return np.interp(np.linspace(0, len(knots) - 1, steps), np.arange(len(knots)), knots)


def far_too_small(rng: Random, steps: int) -> Any:
    """The time constant is two to eight times the run: a tenth of a rate that needs a fifth of the run to it."""
    floor = rng.uniform(0.0, 0.4)
    return floor + (1 - floor) * np.exp(-np.arange(steps) / (steps * rng.uniform(2.0, 6.0)))


def far_too_large(rng: Random, steps: int) -> Any:
    """The first steps throw the weights away; the loss comes back to the level of a model that knows nothing."""
    thrown = rng.uniform(20, 500) * np.exp(-np.arange(steps) / max(0.01 * steps, 2.0))
    thrown[0] = 0.0
    return 1.0 + thrown


def growing(rng: Random, steps: int) -> Any:
    return 1.0 + rng.uniform(3, 30) * np.arange(steps) / steps


def oscillating(rng: Random, steps: int) -> Any:
    """Each time the weights come near the valley, they are thrown out of it again."""
    cycles, start = rng.uniform(2.5, 8), rng.uniform(0, 1.0)
    return np.exp(rng.uniform(0.5, 2.0) * np.sin(start - 2 * np.pi * cycles * np.arange(steps) / steps))


def stuck(rng: Random, steps: int) -> Any:
    """The loss stays where the first steps threw it, as that of a model that is trained already does."""
    return np.full(steps, rng.uniform(1.0, 3.0)) - rng.uniform(0, 0.02) * np.arange(steps) / steps


SUPERVISED: tuple[Callable[[Random, int], Any], ...] = (
    exponential_fall, power_fall, with_warm_up, with_cosine, with_steps_down, with_restarts, near_zero, plateau_first,
    already_trained,
)  # fmt: skip
OTHERS: tuple[Callable[[Random, int], Any], ...] = (
    adversarial, agent_value_error, agent_policy_loss, negative_reward,
)  # fmt: skip

SICK: tuple[Callable[[Random, int], Any], ...] = (far_too_small, far_too_large, growing, oscillating, stuck)


def simulated_run(kind: Callable[[Random, int], Any], rng: Random, *, in_fit: bool) -> SimulatedRun:
    """A run of that kind with noise of batches that is multiplied, of light or heavy tails, and partly drifts."""
    steps = int(np.exp(rng.uniform(np.log(60), np.log(20_000))))
    level = kind(rng, steps) * np.exp(rng.uniform(-3, 3))
    spread = np.exp(rng.uniform(np.log(0.01), np.log(0.6)))
    noise = np.exp(spread * rng.normal(size=steps)) if rng.random() < 0.5 else rng.gamma(spread**-2, spread**2, steps)
    drift = np.exp(0.03 * rng.random() * drifting(rng, steps))
    return SimulatedRun(kind.__name__, seen_points(rng, level * noise * drift, in_fit=in_fit), in_fit)


def seen_points(rng: Random, losses: Any, *, in_fit: bool) -> np.ndarray[Any, Any]:
    """The losses that are seen at a few looks in a second; in ``fit``, means since the epoch began."""
    steps = len(losses)
    step_s = np.exp(rng.uniform(np.log(0.001), np.log(0.2)))
    looks = np.concatenate([np.arange(EARLY_LOOKS) * EARLY_S, EARLY_LOOKS * EARLY_S + np.arange(steps) * LATER_S])
    seen = np.unique(np.minimum((looks / step_s).astype(int), steps - 1))
    seen = seen[:: max(len(seen) // 480, 1)]
    if not in_fit:
        return np.stack([seen + 1, losses[seen], np.ones(len(seen))], axis=1)
    epoch = max(int(steps / rng.integers(1, 30)), 1)
    within = np.arange(steps) % epoch + 1
    total = np.cumsum(losses)
    before = np.concatenate([[0.0], total])[np.arange(steps) - within + 1]
    means = ((total - before) / within).astype(np.float32)  # Keras adds up in float32
    return np.stack([seen + 1, means[seen], within[seen]], axis=1)


def healthy_runs(seed: int, count: int) -> Iterator[SimulatedRun]:
    """``count`` runs: of the supervised kinds both as Keras and as loops of one's own report them."""
    rng = np.random.default_rng(seed)
    kinds = [(kind, in_fit) for kind in SUPERVISED for in_fit in (True, False)] + [(kind, False) for kind in OTHERS]
    for number in range(count):
        kind, in_fit = kinds[number % len(kinds)]
        yield simulated_run(kind, rng, in_fit=in_fit)
