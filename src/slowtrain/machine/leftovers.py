"""Settings that slow training down if they are left on, for ``machine/slowing-setting``. One table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from slowtrain.machine.reading import Facts, at, cards
from slowtrain.model import Signal
from slowtrain.model.sheet import Check, State
from slowtrain.values import dataclass

CAUSE = "machine/slowing-setting"


def _on(value: str) -> bool:
    return value.strip().lower() in ("1", "true", "yes", "on")


def _off(value: str) -> bool:
    return value.strip().lower() in ("0", "false", "no", "off")


def _above_zero(value: str) -> bool:
    return value.strip().isdecimal() and int(value) > 0


def _below(least: int) -> Callable[[str], bool]:
    return lambda value: value.strip().isdecimal() and int(value) < least


def _any(value: str) -> bool:
    return bool(value.strip())


def _has(*words: str) -> Callable[[str], bool]:
    return lambda value: any(word in value for word in words)


@dataclass(frozen=True)
class Setting:
    """A variable, the values that slow training, and their effect.

    ``chosen``: often intended, so noted and not wrong.
    """

    name: str
    slow: Callable[[str], bool]
    says: str
    source: str
    gpu: bool = False
    chosen: bool = False


SETTINGS = (
    Setting(
        "CUDA_LAUNCH_BLOCKING",
        _on,
        "the host waits for every kernel; meant for finding errors",
        "cuda-variables",
        gpu=True,
    ),
    Setting(
        "CUDA_CACHE_DISABLE",
        _on,
        "what the driver compiled is compiled again at every start",
        "cuda-variables",
        gpu=True,
    ),
    Setting("CUDA_FORCE_PTX_JIT", _on, "the driver compiles every kernel at every start", "cuda-variables", gpu=True),
    Setting(
        "CUDA_CACHE_MAXSIZE",
        _below(256 << 20),
        "the driver keeps less of what it compiled than by itself; what does not fit is compiled at every start",
        "cuda-cache",
        gpu=True,
        chosen=True,
    ),
    Setting(
        "CUDA_DEVICE_MAX_CONNECTIONS",
        lambda v: v.strip() == "1",
        "copies and kernels wait in one line",
        "cuda-variables",
        gpu=True,
        chosen=True,
    ),
    Setting("CUDA_INJECTION64_PATH", _any, "a profiler is attached to every CUDA program", "cuda-injection", gpu=True),
    Setting(
        "TF_FORCE_UNIFIED_MEMORY",
        _on,
        "tensors spill to the host's memory, slowly, instead of failing",
        "tensorflow-unified",
        gpu=True,
    ),
    Setting(
        "NVIDIA_TF32_OVERRIDE",
        _off,
        "float32 matrix work is kept off the tensor cores",
        "cuda-tf32",
        gpu=True,
        chosen=True,
    ),
    Setting(
        "TF_DETERMINISTIC_OPS",
        _on,
        "repeatable kernels, which can be much slower; needed for repeatable runs only",
        "tensorflow-determinism",
    ),
    Setting(
        "TF_CUDNN_DETERMINISTIC",
        _on,
        "repeatable convolutions, which can be much slower",
        "tensorflow-determinism",
        gpu=True,
    ),
    Setting(
        "TF_CUDNN_USE_AUTOTUNE", _off, "cuDNN does not try for the fastest convolution", "tensorflow-autotune", gpu=True
    ),
    Setting(
        "TF_CUDNN_WORKSPACE_LIMIT_IN_MB",
        _below(4096),
        "convolutions that need more room are not tried, be they the fastest",
        "tensorflow-workspace",
        gpu=True,
        chosen=True,
    ),
    Setting("TF_CPP_MAX_VLOG_LEVEL", _above_zero, "TensorFlow logs in its hot paths", "tensorflow-vlog"),
    Setting(
        "TF_CPP_MIN_VLOG_LEVEL",
        _above_zero,
        "a name that old releases read: TensorFlow 2.21 does not log by it",
        "tensorflow-vlog",
        chosen=True,
    ),
    Setting("TF_CPP_VMODULE", _any, "TensorFlow logs in the hot paths of the files named", "tensorflow-vlog"),
    Setting(
        "TF_XLA_FLAGS",
        _has("tf_xla_clustering_debug", "tf_dump_graph"),
        "XLA's clustering writes every graph to disk",
        "xla-dump",
    ),
    Setting(
        "XLA_FLAGS",
        _has("--xla_dump_to", "--xla_dump_hlo"),
        "XLA writes out every program that it compiles",
        "xla-dump",
    ),
    Setting(
        "TF_ENABLE_ONEDNN_OPTS", _off, "oneDNN's faster kernels of the CPU are off", "tensorflow-onednn", chosen=True
    ),
    Setting("TF_DISABLE_MKL", _on, "oneDNN is off in a build of Intel's", "tensorflow-mkl", chosen=True),
    Setting(
        "MALLOC_ARENA_MAX",
        lambda v: v.strip() == "1",
        "all threads share one heap and its lock",
        "malloc-arenas",
        chosen=True,
    ),
    Setting("JAX_DISABLE_JIT", _on, "JAX compiles nothing and runs every op by itself", "jax-flags"),
    Setting("JAX_DEBUG_NANS", _on, "JAX waits for every result to look for a NaN", "jax-flags"),
    Setting("JAX_DEBUG_INFS", _on, "JAX waits for every result to look for an infinity", "jax-flags"),
    Setting("JAX_ENABLE_CHECKS", _on, "JAX checks its own work, which makes it slower", "jax-flags"),
    Setting(
        "JAX_DEFAULT_MATMUL_PRECISION",
        lambda v: v.strip().lower() in ("highest", "float32"),
        "matrix work in float32 keeps off the tensor cores",
        "jax-flags",
        gpu=True,
        chosen=True,
    ),
    Setting(
        "XLA_PYTHON_CLIENT_ALLOCATOR",
        _has("platform"),
        "JAX asks the driver for every piece of memory",
        "jax-memory",
        gpu=True,
    ),
    Setting("PYTHONDEVMODE", _any, "Python checks every allocation", "python-variables"),
    Setting("PYTHONMALLOC", _has("debug"), "Python checks every allocation", "python-variables"),
    Setting("PYTHONTRACEMALLOC", _above_zero, "Python keeps a record of every allocation", "python-variables"),
    Setting(
        "NCCL_DEBUG",
        lambda v: v.strip().upper() in ("INFO", "TRACE"),
        "every collective is logged",
        "nccl-variables",
        gpu=True,
    ),
    Setting(
        "NCCL_P2P_DISABLE", _on, "GPUs exchange through the host's memory", "nccl-transports", gpu=True, chosen=True
    ),
    Setting(
        "NCCL_SHM_DISABLE",
        _on,
        "GPUs that cannot exchange directly take the network's way, inside one machine too",
        "nccl-transports",
        gpu=True,
        chosen=True,
    ),
)


def leftovers(facts: Facts) -> Iterator[Check]:
    """One check for each setting that slows training, and one for all settings that do not."""
    environment = at(facts, "environment")
    if not isinstance(environment, Mapping):
        yield Check(CAUSE, "settings", State.UNCHECKED, "the environment is not told", missing=(Signal.FACTS,))
        return
    slow = [s for s in SETTINGS if isinstance(v := environment.get(s.name), str) and s.slow(v)]
    for setting in slow:
        value, idle = str(environment[setting.name]), setting.gpu and not cards(facts)
        says = f"{setting.name}={value[:60]}: {setting.says}"
        state = State.NOTED if setting.chosen or idle else State.WRONG
        remedy = f"`unset {setting.name}`" if state is State.WRONG else None
        yield Check(CAUSE, setting.name, state, says + (" (there is no GPU here)" if idle else ""), remedy,
                    sources=(setting.source,))  # fmt: skip
    if not any(not (s.chosen or (s.gpu and not cards(facts))) for s in slow):
        says = f"none of the {len(SETTINGS)} settings known to slow training is left on"
        yield Check(
            CAUSE, "settings", State.FINE, says if not slow else "no other setting known to slow training is on"
        )
