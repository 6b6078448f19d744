"""Every number and version rule by which a machine is judged, each with its source and the day it was read there.

One table, so that it can be read and corrected as a whole. What is not in it is unknown and is reported as unchecked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slowtrain.machine.tables.thresholds import KERAS_WORKERS, OWN_CHOICE
from slowtrain.shared.vocabulary import Source

READ_ON = "2026-11-22"
ADDED_ON = "2026-11-25"  # rows that were added later
VERIFIED_ON = "2026-11-26"  # rows that were written from memory first, and checked against the source on this day

SOURCES: Mapping[str, Source] = {
    source.key: source
    for source in (
        OWN_CHOICE,
        KERAS_WORKERS,
        Source(
            "cuda-driver",
            "A CUDA toolkit needs at least driver 450.80.02 (11.x), 525.60.13 (12.x) or 580 (13.x); on Windows "
            "452.39 (11.x) or 528.33 (12.x)",
            "NVIDIA, CUDA Compatibility, Minor Version Compatibility, table 1: https://docs.nvidia.com/deploy/"
            "cuda-compatibility/minor-version-compatibility.html; tensorflow.org/install/pip, software requirements",
            READ_ON,
        ),
        Source(
            "cuda-ptx-driver",
            "Code that the driver has to compile from PTX needs a driver of the toolkit's own CUDA version or newer: "
            "minor version compatibility does not cover it",
            "NVIDIA, CUDA Compatibility, Minor Version Compatibility, application considerations: "
            "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
            READ_ON,
        ),
        Source(
            "cuda-binary",
            "Machine code for compute capability X.y runs on X.z with z >= y and on no other X; PTX for X.y is "
            "compiled at start for X.y and everything newer",
            "NVIDIA, CUDA C++ Programming Guide, binary and PTX compatibility: "
            "https://docs.nvidia.com/cuda/cuda-c-programming-guide/",
            READ_ON,
        ),
        Source(
            "tensorflow-capabilities",
            "In a build's list sm_xy means machine code only, and compute_xy means machine code and PTX",
            "TensorFlow, configure.py, the question for TF_CUDA_COMPUTE_CAPABILITIES",
            READ_ON,
        ),
        Source(
            "tensorflow-ptx",
            "TensorFlow's own warning says that compiling kernels from PTX at start can take 30 minutes or longer",
            "TensorFlow, gpu_device.cc; https://github.com/tensorflow/tensorflow/issues/62320",
            READ_ON,
        ),
        Source(
            "tensorflow-windows",
            "TensorFlow 2.10 was the last release with GPU support on native Windows; 2.11 and newer need WSL2",
            "https://www.tensorflow.org/install/pip#windows-native",
            READ_ON,
        ),
        Source("tensorflow-macos", "TensorFlow has no official GPU support on macOS",
               "https://www.tensorflow.org/install/pip", READ_ON),
        Source(
            "tensorflow-cuda-wheels",
            "tensorflow[and-cuda] installs CUDA as wheels: 2.15.1 installs CUDA 12.2 and cuDNN 8.9.4, 2.21.0 "
            "installs CUDA 12.5 or a newer 12 and cuDNN 9.3 or a newer 9",
            "METADATA of the wheels tensorflow-cpu 2.15.1 and 2.21.0, extra and-cuda",
            READ_ON,
        ),
        Source(
            "cudnn-minor",
            "TensorFlow needs the cuDNN major version that it was built with, and an equal or higher minor version; "
            "PyTorch and JAX check the same at start-up",
            "TensorFlow, cuda_dnn.cc: the error message for another version; PyTorch, "
            "torch/backends/cudnn/__init__.py; JAX, jax_plugins/cuda/__init__.py",
            READ_ON,
        ),
        Source(
            "cuda-sonames",
            "Names of the libraries of CUDA 11, 12 and 13 and of cuDNN 8 and 9",
            "file names in NVIDIA's wheels on the package index: nvidia-*-cu11, nvidia-*-cu12, nvidia-* (13)",
            READ_ON,
        ),
        Source(
            "pcie-rate",
            "PCI Express, generations 1 to 6: 0.25, 0.5, 0.985, 1.969, 3.938, 7.563 GB/s per lane and direction",
            "PCI-SIG, PCI Express base specifications 1.0 to 6.0: transfer rate less coding (8b/10b, 128b/130b, FLIT)",
            READ_ON,
        ),
        Source(
            "nvml",
            "The driver reports reasons for a lower clock, temperatures, ECC counters, retired pages and remapped rows",
            "NVIDIA, NVML API reference: https://docs.nvidia.com/deploy/nvml-api/",
            READ_ON,
        ),
        Source(
            "page-retirement",
            "XID 48 is an uncorrectable memory error, 63 a retired page or remapped row, 64 a failure to do that; "
            "pending ones take effect after a reset of the GPU or driver",
            "NVIDIA, Dynamic Page Retirement: https://docs.nvidia.com/deploy/dynamic-page-retirement/visibility.html",
            READ_ON,
        ),
        Source(
            "xid",
            "XID 79: the GPU fell off the bus; 74: NVLink error; 94: contained, 95: uncontained memory error",
            "NVIDIA, XID errors, catalogue: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html",
            READ_ON,
        ),
        Source(
            "container-gpu",
            "A container sees the GPU with the NVIDIA Container Toolkit and docker run --gpus all (podman: similar)",
            "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/; tensorflow.org/install/docker",
            READ_ON,
        ),
        Source(
            "container-lost",
            "A container loses its GPUs, and NVML returns Unknown Error, when systemd on the host reloads units "
            "that name them; a restart of the container restores them; since release 1.18 the toolkit prevents it "
            "by default",
            "NVIDIA, https://github.com/NVIDIA/nvidia-container-toolkit/issues/48 and /issues/1227",
            ADDED_ON,
        ),
        Source(
            "kubernetes-gpu",
            "A pod gets GPUs by resources.limits, nvidia.com/gpu, where the cluster runs NVIDIA's device plugin",
            "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
            ADDED_ON,
        ),
        Source(
            "apptainer-gpu",
            "A container of Apptainer (Singularity) sees the GPU with --nv",
            "Apptainer, user guide, GPU support: gpu.rst",
            ADDED_ON,
        ),
        Source(
            "host-numbers",
            "The driver returns the host's process ids, also in a container",
            "https://github.com/NVIDIA/nvidia-docker/issues/1483",
            ADDED_ON,
        ),
        Source(
            "mig-instances",
            "With MIG on, no CUDA program runs on the card before instances are created",
            "NVIDIA, MIG User Guide, Creating GPU Instances: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
            ADDED_ON,
        ),
        Source(
            "pci-vendors",
            "PCI vendor ids of display makers",
            "Linux, include/linux/pci_ids.h and dxgkrnl; QEMU, pci_ids.h",
            ADDED_ON,
        ),
        Source(
            "wsl",
            "In WSL2 the Windows driver provides libcuda in /usr/lib/wsl/lib; no Linux driver may be installed there",
            "NVIDIA, CUDA on WSL User Guide: https://docs.nvidia.com/cuda/wsl-user-guide/",
            READ_ON,
        ),
        Source(
            "wsl-files",
            "WSL reads files on a Windows drive (/mnt/c, 9p) more slowly than files in its own file system",
            "Microsoft, Working across file systems: https://learn.microsoft.com/windows/wsl/filesystems",
            READ_ON,
        ),
        Source(
            "docker-shm",
            "Docker gives a container 64 MB of shared memory unless --shm-size says otherwise; NCCL and PyTorch's "
            "loaders need more",
            "Docker, docker run reference; NVIDIA, NCCL User Guide, troubleshooting, shared memory",
            READ_ON,
        ),
        Source(
            "tensorflow-threads",
            "TensorFlow sizes its thread pools by the cores that the process may run on, not by a container's quota",
            "TensorFlow, NumSchedulableCPUs: sched_getaffinity",
            READ_ON,
        ),
        Source(
            "cuda-variables",
            "CUDA_VISIBLE_DEVICES: CUDA sees the GPUs before the first invalid index, and an empty value hides all; "
            "CUDA_LAUNCH_BLOCKING, CUDA_CACHE_DISABLE, CUDA_FORCE_PTX_JIT, CUDA_DEVICE_MAX_CONNECTIONS",
            "NVIDIA, CUDA Programming Guide, environment variables: https://docs.nvidia.com/cuda/"
            "cuda-programming-guide/05-appendices/environment-variables.html",
            READ_ON,
        ),
        Source(
            "cuda-cache",
            "CUDA_CACHE_MAXSIZE: the driver's kernel cache holds 1 GiB by default, 256 MiB on embedded platforms",
            "NVIDIA, CUDA Programming Guide, environment variables: "
            "https://docs.nvidia.com/cuda/cuda-programming-guide/"
            "05-appendices/environment-variables.html; not read there, but in a public repository that quotes it",
            VERIFIED_ON,
        ),
        Source(
            "cuda-injection",
            "CUDA_INJECTION64_PATH names a library that every CUDA program loads, usually a profiler's",
            "PyTorch, libkineto, init.cpp: what the CUDA driver calls if the variable is set",
            ADDED_ON,
        ),
        Source(
            "cuda-tf32",
            "NVIDIA_TF32_OVERRIDE=0 turns TF32 off in NVIDIA's libraries",
            "DeepRec, NVIDIA TF32: https://deeprec.readthedocs.io/en/latest/NVIDIA-TF32.html",
            ADDED_ON,
        ),
        Source(
            "tensorflow-determinism",
            "Determinism costs speed; TF_DETERMINISTIC_OPS is its older switch",
            "https://www.tensorflow.org/api_docs/python/tf/config/experimental/enable_op_determinism; TensorFlow 2.8, "
            "release notes",
            READ_ON,
        ),
        Source(
            "tensorflow-unified",
            "TF_FORCE_UNIFIED_MEMORY lets device memory spill to slower host memory instead of failing",
            "AlphaFold 3, performance, unified memory: https://github.com/google-deepmind/alphafold3/blob/main/docs/"
            "performance.md; the name is in TensorFlow's library of 2.21",
            VERIFIED_ON,
        ),
        Source(
            "tensorflow-autotune",
            "TF_CUDNN_USE_AUTOTUNE is on unless it is set to 0: it times cuDNN's algorithms for a convolution",
            "https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/use_cudnn.cc, CudnnUseAutotune; "
            "the name is in the library of 2.21",
            VERIFIED_ON,
        ),
        Source(
            "tensorflow-workspace",
            "TF_CUDNN_WORKSPACE_LIMIT_IN_MB: 4096 by default; an algorithm that needs more is not tried",
            "TensorFlow, kernels of convolutions: GetDnnWorkspaceLimit, 1 << 32",
            ADDED_ON,
        ),
        Source(
            "tensorflow-vlog",
            "TF_CPP_MAX_VLOG_LEVEL and TF_CPP_VMODULE turn verbose logging on; 2.21 ignores TF_CPP_MIN_VLOG_LEVEL",
            "TensorFlow, third_party/xla/third_party/tsl/tsl/platform/default/logging.cc: "
            "https://github.com/tensorflow/"
            "tensorflow/blob/07cc4d4de0947c3bbfde2622a75ad78d4527e777/third_party/xla/third_party/tsl/tsl/platform/default/"
            "logging.cc; which of the names are in the library of 2.21",
            VERIFIED_ON,
        ),
        Source(
            "xla-dump",
            "xla_dump_to writes every compiled program to files; tf_xla_clustering_debug every clustered graph",
            "OpenXLA, debug_options_flags.cc; TensorFlow, compiler/jit/flags.cc",
            ADDED_ON,
        ),
        Source(
            "tensorflow-onednn",
            "TF_ENABLE_ONEDNN_OPTS=0 turns oneDNN's kernels off",
            "TensorFlow's own notice at start-up (port.cc): seen with 2.15 and 2.21",
            READ_ON,
        ),
        Source(
            "tensorflow-mkl",
            "TF_DISABLE_MKL=1 turns oneDNN off in Intel's builds; other builds do not read it",
            "TensorFlow, IsMKLEnabled",
            ADDED_ON,
        ),
        Source(
            "jax-platforms",
            "JAX has builds for NVIDIA GPUs on Linux, and experimental ones on WSL2; it has none for native Windows",
            "https://docs.jax.dev/en/latest/installation.html, supported platforms",
            ADDED_ON,
        ),
        Source(
            "jax-plugin",
            "JAX does not use a CUDA plugin whose version differs from jaxlib's",
            "JAX, jaxlib/plugin_support.py, check_plugin_version",
            ADDED_ON,
        ),
        Source(
            "jax-flags",
            "JAX_PLATFORMS names the devices that JAX opens; JAX_DISABLE_JIT, JAX_DEBUG_NANS, JAX_DEBUG_INFS, "
            "JAX_ENABLE_CHECKS and JAX_DEFAULT_MATMUL_PRECISION trade speed for checks or precision",
            "JAX 0.10.2, jax/_src/config.py",
            READ_ON,
        ),
        Source(
            "jax-memory",
            "XLA_PYTHON_CLIENT_ALLOCATOR=platform allocates and frees each buffer through the driver: very slow",
            "JAX, GPU memory allocation: https://docs.jax.dev/en/latest/201/gpu-memory.html",
            READ_ON,
        ),
        Source(
            "python-variables",
            "PYTHONDEVMODE, PYTHONMALLOC=debug and PYTHONTRACEMALLOC check or record allocations",
            "https://docs.python.org/3/using/cmdline.html#environment-variables, as Doc/using/cmdline.rst; bpo-26516",
            VERIFIED_ON,
        ),
        Source(
            "nccl-variables",
            "NCCL_DEBUG=INFO logs what NCCL does and TRACE every call; WARN logs only warnings and is for production",
            "NVIDIA, NCCL User Guide, logging: "
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/logging.html",
            VERIFIED_ON,
        ),
        Source(
            "nccl-transports",
            "NCCL_P2P_DISABLE=1 keeps GPUs from exchanging directly; if GPUs cannot, NCCL_SHM_DISABLE=1 makes them "
            "use the network instead of host memory",
            "https://docs.nvidia.com/deeplearning/nccl/archives/nccl_2134/user-guide/docs/env.html",
            ADDED_ON,
        ),
        Source(
            "malloc-arenas",
            "Several arenas let several threads allocate at once; MALLOC_ARENA_MAX=1 leaves only one",
            "GNU C library, manual, memory.texi: https://sourceware.org/pipermail/libc-alpha/2016-October/075461.html",
            ADDED_ON,
        ),
        Source(
            "oversubscription",
            "Many more threads than processors make each thread slower, and switching between them costs time",
            "joblib, Avoiding over-subscription of CPU resources: "
            "https://joblib.readthedocs.io/en/latest/parallel.html",
            ADDED_ON,
        ),
    )
}  # fmt: skip

MINIMUM_DRIVER: Mapping[str, Mapping[int, tuple[int, ...]]] = {
    "Linux": {11: (450, 80, 2), 12: (525, 60, 13), 13: (580,)},
    "Windows": {11: (452, 39), 12: (528, 33)},
}
"""System -> CUDA major version -> the oldest driver that runs it (cuda-driver)."""

CUDA_LIBRARIES: Mapping[int, tuple[str, ...]] = {
    11: ("libcudart.so.11.0", "libcublas.so.11", "libcublasLt.so.11", "libcufft.so.10", "libcusolver.so.11",
         "libcusparse.so.11"),
    12: ("libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12", "libcufft.so.11", "libcusolver.so.11",
         "libcusparse.so.12"),
    13: ("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcufft.so.12", "libcusolver.so.12",
         "libcusparse.so.12"),
}  # fmt: skip
"""CUDA major version -> the shared libraries that such a build loads (cuda-sonames)."""

OPTIONAL_LIBRARIES: Mapping[int, tuple[str, ...]] = {
    12: ("libcupti.so.12", "libnvJitLink.so.12", "libnccl.so.2"),
    13: ("libcupti.so.13", "libnvJitLink.so.13", "libnccl.so.2"),
}
"""CUDA major version -> libraries for profiles, linking and several GPUs; optional (cuda-sonames)."""

LIBRARY_WHEELS: Mapping[str, str] = {
    "libcudart": "nvidia-cuda-runtime",
    "libcublas": "nvidia-cublas",
    "libcublasLt": "nvidia-cublas",
    "libcufft": "nvidia-cufft",
    "libcusolver": "nvidia-cusolver",
    "libcusparse": "nvidia-cusparse",
    "libcudnn": "nvidia-cudnn",
}
"""Library -> the wheel that contains it, without its suffix ``-cu12``."""

DISPLAY_MAKERS: Mapping[str, str] = {
    "0x1002": "AMD", "0x8086": "Intel", "0x1a03": "ASPEED", "0x102b": "Matrox", "0x1013": "Cirrus Logic",
    "0x1234": "QEMU", "0x1af4": "virtio", "0x1b36": "Red Hat", "0x15ad": "VMware", "0x1414": "Microsoft",
}  # fmt: skip
"""PCI vendor id -> vendors of displays other than NVIDIA (pci-vendors)."""

DISPLAY_ONLY_VENDORS = frozenset(DISPLAY_MAKERS) - {"0x1002", "0x8086"}
"""Of these the vendors of server consoles and virtual displays, which cannot compute."""

LANE_GBPS: Mapping[int, float] = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""PCI Express generation -> GB/s per lane and direction (pcie-rate)."""

FAULTY_XIDS: Mapping[int, str] = {
    48: "an uncorrectable memory error",
    64: "a bad page or row that could not be retired",
    74: "an error of NVLink",
    79: "the GPU has fallen off the bus",
    94: "a contained memory error",
    95: "an uncontained memory error",
}
"""XIDs that are faults of the card or its slot, never of a program (page-retirement, xid)."""

LAST_NATIVE_WINDOWS = (2, 10)
"""The last TensorFlow that used a GPU on native Windows (tensorflow-windows)."""

FIRST_CUDA_EXTRA = (2, 15)
"""The oldest TensorFlow whose wheel was seen to have the extra ``and-cuda`` (tensorflow-cuda-wheels)."""

DOCKER_SHM_BYTES = 64 << 20
"""Docker's default size of shared memory (docker-shm)."""

# File system types in /proc/self/mountinfo, by what they are.
NETWORK_FILESYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs lustre ceph gpfs beegfs glusterfs afs fuse.sshfs fuse.gcsfuse fuse.s3fs fuse.goofys "
    "fuse.juicefs fuse.glusterfs fuse.blobfuse2 wekafs".split()
)
WINDOWS_FILESYSTEMS = frozenset({"9p", "drvfs"})
MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs"})


def find_sources(keys: Iterable[str]) -> tuple[Source, ...]:
    """The sources of these keys, each once, in order."""
    return tuple(SOURCES[key] for key in dict.fromkeys(keys))
