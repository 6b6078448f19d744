"""Environment variables that change how fast TensorFlow or JAX trains, each with its reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RELEVANT_VARIABLES: Mapping[str, str] = {
    # threads of the host
    "OMP_NUM_THREADS": "threads of oneDNN and OpenMP kernels; 1 is often left over from a cluster's login script",
    "MKL_NUM_THREADS": "threads of NumPy's linear algebra where it was built with MKL",
    "OPENBLAS_NUM_THREADS": "threads of NumPy's linear algebra where it was built with OpenBLAS",
    "KMP_BLOCKTIME": "how long OpenMP threads spin after work; spinning takes cores from the input pipeline",
    "KMP_AFFINITY": "pins OpenMP threads to cores",
    "GOMP_CPU_AFFINITY": "pins OpenMP threads to cores",
    "TF_NUM_INTRAOP_THREADS": "threads inside one op, and the size of tf.data's default pool",
    "TF_NUM_INTEROP_THREADS": "ops that run at the same time",
    "TF_ENABLE_ONEDNN_OPTS": "0 turns oneDNN's kernels off, which makes many CPU ops slower",
    "TF_ENABLE_ONEDNN_SPMM": "sparse kernels of oneDNN",
    "PYTHONDEVMODE": "Python's development mode slows down every allocation",
    "PYTHONMALLOC": "debug allocators slow down all of Python",
    "PYTHONTRACEMALLOC": "tracing of allocations slows down all of Python",
    "PYTHONHASHSEED": "fixes the hash seed, for repeatable runs",
    "MALLOC_ARENA_MAX": "1 makes all threads share one heap and its lock",
    "LD_PRELOAD": "a replaced allocator (tcmalloc, jemalloc) changes host time and memory",
    # which device, and its input
    "CUDA_VISIBLE_DEVICES": "which GPUs TensorFlow can see; empty or -1 hides all of them",
    "CUDA_DEVICE_ORDER": "whether GPU numbers are those that nvidia-smi shows",
    "CUDA_LAUNCH_BLOCKING": "1 makes the host wait for every kernel; intended only for finding errors",
    "CUDA_DEVICE_MAX_CONNECTIONS": "number of hardware queues; 1 puts copies and kernels into one queue",
    "CUDA_CACHE_DISABLE": "1 makes the driver compile the same kernels again at every start",
    "CUDA_CACHE_MAXSIZE": "too small a cache makes the driver compile kernels again at every start",
    "CUDA_INJECTION64_PATH": "a library that every CUDA program loads, usually a profiler's",
    "CUDA_FORCE_PTX_JIT": "1 makes the driver compile all kernels at start",
    "NVIDIA_TF32_OVERRIDE": "0 keeps float32 matrix work off the tensor cores",
    "NVIDIA_VISIBLE_DEVICES": "which GPUs the container was given",
    "TF_GPU_THREAD_MODE": "gpu_private gives kernel launches threads of their own",
    "TF_GPU_THREAD_COUNT": "the number of such threads",
    "TF_GPU_ALLOCATOR": "cuda_malloc_async replaces TensorFlow's own allocator",
    "TF_FORCE_GPU_ALLOW_GROWTH": "takes memory as needed, so that used memory is meaningful",
    "TF_FORCE_UNIFIED_MEMORY": "1 lets tensors spill to the host's memory, slowly, instead of failing",
    "TF_CUDNN_USE_AUTOTUNE": "0 keeps cuDNN from choosing the fastest convolution",
    "TF_CUDNN_USE_FRONTEND": "which interface of cuDNN chooses convolutions",
    "TF_CUDNN_WORKSPACE_LIMIT_IN_MB": "a small workspace rules out the fastest convolutions",
    "HIP_VISIBLE_DEVICES": "which AMD GPUs can be seen",
    "JAX_PLATFORMS": "which devices JAX opens; cpu alone leaves the GPU out",
    "XLA_PYTHON_CLIENT_ALLOCATOR": "platform asks the driver for every buffer, which is slow",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false takes JAX's memory as needed, so that used memory is meaningful",
    "XLA_PYTHON_CLIENT_MEM_FRACTION": "how much of the GPU's memory JAX takes at once",
    "XLA_CLIENT_MEM_FRACTION": "its newer name",
    # compilation and numbers
    "TF_XLA_FLAGS": "turns XLA's automatic clustering on or off",
    "XLA_FLAGS": "options of XLA; dumps and checks slow every compile",
    "TF_DETERMINISTIC_OPS": "1 chooses repeatable kernels, which can be much slower",
    "TF_CUDNN_DETERMINISTIC": "1 chooses repeatable convolutions, which can be much slower",
    "TF_ENABLE_AUTO_MIXED_PRECISION": "rewrites graphs to 16-bit matrix work",
    "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_LEVEL": "how many ops it rewrites",
    "TF_DISABLE_MKL": "1 turns the faster CPU kernels off",
    "TF_FUNCTION_JIT_COMPILE_DEFAULT": "1 compiles every tf.function with XLA",
    "JAX_DEFAULT_MATMUL_PRECISION": "highest keeps float32 matrix work off the tensor cores",
    "JAX_DISABLE_JIT": "1 runs the ops one by one",
    "JAX_ENABLE_X64": "1 allows 64-bit numbers",
    "JAX_COMPILATION_CACHE_DIR": "where compiled programs are kept from one start to the next",
    "TF_USE_LEGACY_KERAS": "1 makes tf.keras Keras 2",
    "KERAS_BACKEND": "the backend of Keras 3",
    # logging, checks, distribution
    "JAX_DEBUG_NANS": "1 checks every result, and waits for it",
    "JAX_DEBUG_INFS": "1 checks every result, and waits for it",
    "JAX_ENABLE_CHECKS": "1 checks JAX's own internal work",
    "TF_CPP_MIN_LOG_LEVEL": "2 and more hide warnings that explain slowness",
    "TF_CPP_MAX_VLOG_LEVEL": "above 0 TensorFlow logs in its hot paths",
    "TF_CPP_MIN_VLOG_LEVEL": "the older name of TF_CPP_MAX_VLOG_LEVEL",
    "TF_CPP_VMODULE": "logs in hot paths of the named files",
    "TF_CONFIG": "the run is one worker of several",
    "TF_PROFILER_TRACE_VIEWER_MAX_EVENTS": "how many events a profile keeps",
    "NCCL_DEBUG": "INFO and TRACE log every collective",
    "NCCL_P2P_DISABLE": "1 sends gradients between GPUs through the host's memory",
    "NCCL_SHM_DISABLE": "1 sends gradients between GPUs through the network's stack",
    "NCCL_SOCKET_IFNAME": "which network carries gradients between machines",
}
"""Variable -> why it matters. No other variable is read or saved."""


def relevant_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The relevant variables that are set, empty ones included: an empty CUDA_VISIBLE_DEVICES hides every GPU."""
    return {name: environ[name] for name in RELEVANT_VARIABLES if name in environ}


def keras_version(environ: Mapping[str, str]) -> str | None:
    """The version of the Keras behind ``tf.keras`` here; None if none is installed. Imports nothing."""
    from importlib import metadata

    legacy = environ.get("TF_USE_LEGACY_KERAS", "").strip().lower() in ("1", "true")
    try:
        return metadata.version("tf_keras" if legacy else "keras")
    except metadata.PackageNotFoundError:
        return None


def count_workers(environ: Mapping[str, Any]) -> int | None:
    """The number of processes in ``TF_CONFIG`` that train; None if it is not set or cannot be read."""
    try:
        cluster = json.loads(environ["TF_CONFIG"])["cluster"]
        return sum(len(cluster.get(task) or ()) for task in ("chief", "worker"))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def keras_backend(environ: Mapping[str, str]) -> str:
    """The backend of Keras 3: the variable, else Keras' own file, else TensorFlow (the only backend of Keras 2)."""
    if name := environ.get("KERAS_BACKEND"):
        return name
    home = environ.get("KERAS_HOME") or str(Path(environ.get("HOME", "~")) / ".keras")
    try:
        found = json.loads((Path(home) / "keras.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "tensorflow"
    named = found.get("backend") if isinstance(found, dict) else None
    return named if isinstance(named, str) else "tensorflow"
