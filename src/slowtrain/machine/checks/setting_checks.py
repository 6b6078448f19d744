"""Settings that slow training down if they are left on, for ``machine/slowing-setting``. One table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from slowtrain.machine.tables.fact_access import Facts, driver_gpus, nested_fact
from slowtrain.model import Signal
from slowtrain.model.inspections import Check, CheckState

TOPIC = "settings"


def _is_on(value: str) -> bool:
    return value.strip().lower() in ("1", "true", "yes", "on")


def _is_off(value: str) -> bool:
    return value.strip().lower() in ("0", "false", "no", "off")


def _is_positive(value: str) -> bool:
    return value.strip().isdecimal() and int(value) > 0


def _is_below(least: int) -> Callable[[str], bool]:
    return lambda value: value.strip().isdecimal() and int(value) < least


def _is_set(value: str) -> bool:
    return bool(value.strip())


def _contains_any(*words: str) -> Callable[[str], bool]:
    return lambda value: any(word in value for word in words)


class SlowingSetting(Struct, frozen=True):
    """A variable, the values that slow training, and their effect.

    ``chosen``: often intended, so noted and not wrong.
    """

    name: str
    slow: Callable[[str], bool]
    says: str
    source: str
    gpu: bool = False
    chosen: bool = False


SLOWING_SETTINGS = (
    SlowingSetting(
        "CUDA_LAUNCH_BLOCKING",
        _is_on,
        "the host waits for every kernel; intended for finding errors",
        "cuda-variables",
        gpu=True,
    ),
    SlowingSetting(
        "CUDA_CACHE_DISABLE",
        _is_on,
        "the driver compiles the same kernels again at every start",
        "cuda-variables",
        gpu=True,
    ),
    SlowingSetting(
        "CUDA_FORCE_PTX_JIT", _is_on, "the driver compiles every kernel at every start", "cuda-variables", gpu=True
    ),
    SlowingSetting(
        "CUDA_CACHE_MAXSIZE",
        _is_below(256 << 20),
        "the driver's cache of compiled kernels is smaller than its default; kernels that do not fit are compiled "
        "at every start",
        "cuda-cache",
        gpu=True,
        chosen=True,
    ),
    SlowingSetting(
        "CUDA_DEVICE_MAX_CONNECTIONS",
        lambda v: v.strip() == "1",
        "copies and kernels share one queue",
        "cuda-variables",
        gpu=True,
        chosen=True,
    ),
    SlowingSetting(
        "CUDA_INJECTION64_PATH", _is_set, "a profiler is attached to every CUDA program", "cuda-injection", gpu=True
    ),
    SlowingSetting(
        "TF_FORCE_UNIFIED_MEMORY",
        _is_on,
        "tensors spill to the slower host memory instead of failing",
        "tensorflow-unified",
        gpu=True,
    ),
    SlowingSetting(
        "NVIDIA_TF32_OVERRIDE",
        _is_off,
        "float32 matrix products do not use the tensor cores",
        "cuda-tf32",
        gpu=True,
        chosen=True,
    ),
    SlowingSetting(
        "TF_DETERMINISTIC_OPS",
        _is_on,
        "repeatable kernels, which can be much slower; needed for repeatable runs only",
        "tensorflow-determinism",
    ),
    SlowingSetting(
        "TF_CUDNN_DETERMINISTIC",
        _is_on,
        "repeatable convolutions, which can be much slower",
        "tensorflow-determinism",
        gpu=True,
    ),
    SlowingSetting(
        "TF_CUDNN_USE_AUTOTUNE",
        _is_off,
        "cuDNN does not search for the fastest convolution",
        "tensorflow-autotune",
        gpu=True,
    ),
    SlowingSetting(
        "TF_CUDNN_WORKSPACE_LIMIT_IN_MB",
        _is_below(4096),
        "convolutions that need more workspace are not tried, even if they are the fastest",
        "tensorflow-workspace",
        gpu=True,
        chosen=True,
    ),
    SlowingSetting("TF_CPP_MAX_VLOG_LEVEL", _is_positive, "TensorFlow logs in its hot paths", "tensorflow-vlog"),
    SlowingSetting(
        "TF_CPP_MIN_VLOG_LEVEL",
        _is_positive,
        "only old releases read this name: it has no effect in TensorFlow 2.21",
        "tensorflow-vlog",
        chosen=True,
    ),
    SlowingSetting("TF_CPP_VMODULE", _is_set, "TensorFlow logs in the hot paths of the named files", "tensorflow-vlog"),
    SlowingSetting(
        "TF_XLA_FLAGS",
        _contains_any("tf_xla_clustering_debug", "tf_dump_graph"),
        "XLA's clustering writes every graph to disk",
        "xla-dump",
    ),
    SlowingSetting(
        "XLA_FLAGS",
        _contains_any("--xla_dump_to", "--xla_dump_hlo"),
        "XLA writes every program that it compiles to disk",
        "xla-dump",
    ),
    SlowingSetting(
        "TF_ENABLE_ONEDNN_OPTS", _is_off, "oneDNN's faster CPU kernels are off", "tensorflow-onednn", chosen=True
    ),
    SlowingSetting("TF_DISABLE_MKL", _is_on, "oneDNN is off in an Intel build", "tensorflow-mkl", chosen=True),
    SlowingSetting(
        "MALLOC_ARENA_MAX",
        lambda v: v.strip() == "1",
        "all threads share one heap and its lock",
        "malloc-arenas",
        chosen=True,
    ),
    SlowingSetting("JAX_DISABLE_JIT", _is_on, "JAX compiles nothing and runs the ops one by one", "jax-flags"),
    SlowingSetting("JAX_DEBUG_NANS", _is_on, "JAX waits for every result to look for a NaN", "jax-flags"),
    SlowingSetting("JAX_DEBUG_INFS", _is_on, "JAX waits for every result to look for an infinity", "jax-flags"),
    SlowingSetting("JAX_ENABLE_CHECKS", _is_on, "JAX checks its own work, which makes it slower", "jax-flags"),
    SlowingSetting(
        "JAX_DEFAULT_MATMUL_PRECISION",
        lambda v: v.strip().lower() in ("highest", "float32"),
        "float32 matrix products do not use the tensor cores",
        "jax-flags",
        gpu=True,
        chosen=True,
    ),
    SlowingSetting(
        "XLA_PYTHON_CLIENT_ALLOCATOR",
        _contains_any("platform"),
        "JAX asks the driver for every piece of memory",
        "jax-memory",
        gpu=True,
    ),
    SlowingSetting("PYTHONDEVMODE", _is_set, "Python checks every allocation", "python-variables"),
    SlowingSetting("PYTHONMALLOC", _contains_any("debug"), "Python checks every allocation", "python-variables"),
    SlowingSetting("PYTHONTRACEMALLOC", _is_positive, "Python keeps a record of every allocation", "python-variables"),
    SlowingSetting(
        "NCCL_DEBUG",
        lambda v: v.strip().upper() in ("INFO", "TRACE"),
        "every collective is logged",
        "nccl-variables",
        gpu=True,
    ),
    SlowingSetting(
        "NCCL_P2P_DISABLE", _is_on, "GPUs exchange through the host's memory", "nccl-transports", gpu=True, chosen=True
    ),
    SlowingSetting(
        "NCCL_SHM_DISABLE",
        _is_on,
        "GPUs that cannot exchange directly use the network, even in one machine",
        "nccl-transports",
        gpu=True,
        chosen=True,
    ),
)


def check_settings(facts: Facts) -> Iterator[Check]:
    """One check for each setting that slows training, and one for all settings that do not."""
    environment = nested_fact(facts, "environment")
    if not isinstance(environment, Mapping):
        yield Check(TOPIC, "settings", CheckState.UNCHECKED, "the environment is unknown", missing=(Signal.FACTS,))
        return
    slow = [s for s in SLOWING_SETTINGS if isinstance(v := environment.get(s.name), str) and s.slow(v)]
    for setting in slow:
        value, idle = str(environment[setting.name]), setting.gpu and not driver_gpus(facts)
        says = f"{setting.name}={value[:60]}: {setting.says}"
        state = CheckState.NOTED if setting.chosen or idle else CheckState.WRONG
        remedy = f"`unset {setting.name}`" if state is CheckState.WRONG else None
        yield Check(TOPIC, setting.name, state, says + (" (there is no GPU here)" if idle else ""), remedy,
                    sources=(setting.source,))  # fmt: skip
    if not any(not (s.chosen or (s.gpu and not driver_gpus(facts))) for s in slow):
        says = f"none of the {len(SLOWING_SETTINGS)} settings known to slow training is on"
        yield Check(
            TOPIC, "settings", CheckState.FINE, says if not slow else "no other setting known to slow training is on"
        )
