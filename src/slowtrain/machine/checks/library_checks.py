"""Whether driver, libraries, build and GPU fit together: ``machine/library-mismatch``, ``startup/jit-from-ptx``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from slowtrain.machine.host.cuda_libraries import major_version
from slowtrain.machine.host.environment_variables import count_workers
from slowtrain.machine.tables.fact_access import (
    Facts,
    build_label,
    driver_gpus,
    framework_builds,
    gpu_label,
    has_nvidia_gpu,
    keras_backend_name,
    nested_fact,
    object_rows,
    parse_version,
)
from slowtrain.machine.tables.rule_table import LIBRARY_WHEELS, MINIMUM_DRIVER
from slowtrain.model import Signal
from slowtrain.model.inspections import Check, CheckState

TOPIC = "versions"
PTX_CAUSE = "compiled code"  # the other topic


def check_builds(facts: Facts) -> Iterator[Check]:
    """Checks for every CUDA build the driver, cuDNN and the code for each GPU, then Keras with several workers."""
    yield from _build_checks(facts)
    yield from _worker_check(facts)


def _worker_check(facts: Facts) -> Iterator[Check]:
    """Several workers with Keras 3. Whether the script trains with ``fit`` is unknown here."""
    environment, keras = nested_fact(facts, "environment"), parse_version(nested_fact(facts, "keras_version"))
    count = count_workers(environment) if isinstance(environment, Mapping) else None
    if not count or count < 2 or not keras or keras[0] < 3 or keras_backend_name(facts) != "tensorflow":
        return
    says = (
        f"TF_CONFIG names {count} workers, and Keras {nested_fact(facts, 'keras_version')} is installed: its fit "
        "fails under MultiWorkerMirroredStrategy with more than one worker"
    )
    yield Check(TOPIC, "workers", CheckState.NOTED, says, numbers={"workers": float(count)}, sources=("keras-workers",))


def _build_checks(facts: Facts) -> Iterator[Check]:
    cuda_builds = {name: build for name, build in framework_builds(facts).items() if build.get("cuda_build")}
    if not cuda_builds or not driver_gpus(facts):
        yield from _checks_without_build(facts, bool(cuda_builds))
        return
    for name, build in cuda_builds.items():
        yield _driver_check(facts, name, build)
        yield from _cudnn_check(name, build)
        yield from _plugin_check(name, build)
        for gpu in driver_gpus(facts):
            for check in _code_checks(facts, name, build, gpu):
                yield replace(check, where=gpu_label(gpu))
    yield from _duplicate_checks(cuda_builds)


def _checks_without_build(facts: Facts, has_cuda_build: bool) -> Iterator[Check]:
    """There is no CUDA build, or the driver shows no GPU."""
    for topic in (TOPIC, PTX_CAUSE):
        if has_nvidia_gpu(facts) is False:
            yield Check(topic, "match", CheckState.FINE, "no NVIDIA GPU here, so nothing has to match")
        elif framework_builds(facts) and not has_cuda_build:
            says = "no installed framework was built with CUDA"
            yield Check(topic, "match", CheckState.UNCHECKED, says, missing=(Signal.BUILD,))
        else:
            missing = (Signal.CARD,) if has_cuda_build else (Signal.BUILD,)
            says = "the driver shows no card" if has_cuda_build else "no framework was asked for its build"
            yield Check(topic, "match", CheckState.UNCHECKED, says, missing=missing)


def _driver_check(facts: Facts, name: str, build: Facts) -> Check:
    least, has = minimum_driver(facts, build), nested_fact(facts, "gpu", "driver_version")
    who, cuda = build_label(name, build), build.get("cuda_version")
    if least is None or parse_version(has) is None:
        says = f"{who}: no rule covers CUDA {cuda or 'unknown'} and driver {has or 'unknown'}"
        return Check(TOPIC, f"{name} driver", CheckState.UNCHECKED, says, missing=(Signal.BUILD,))
    old, wanted = describe_old_driver(facts, build), ".".join(map(str, least))
    if old:
        remedy = f"install driver {wanted} or newer (`nvidia-smi` shows the new one after a reboot)"
        return Check(TOPIC, f"{name} driver", CheckState.WRONG, f"{who}: {old}", remedy, sources=("cuda-driver",))
    says = f"CUDA {cuda} runs on driver {has} ({wanted} or newer)"
    return Check(TOPIC, f"{name} driver", CheckState.FINE, says, sources=("cuda-driver",))


def _cudnn_check(build_name: str, build: Facts) -> Iterator[Check]:
    """Compares the cuDNN that the framework loaded with the one it was built with."""
    built = parse_version(build.get("cudnn_version"))
    has, file = _find_loaded_cudnn(build)
    name, who = f"{build_name} cuDNN", build_label(build_name, build)
    if built is None and has is None:
        return
    shown, required = ".".join(map(str, has or ())), ".".join(map(str, built or ()))
    place = f" ({file})" if file else ""
    # The major version alone is enough if the build reports no more than that.
    if built is None or has is None or (has[0] == built[0] and len(has) == 1 < len(built)):
        says = f"loads cuDNN {shown}{place}" if has else f"built with cuDNN {required}"
        lacks = "the version of its build" if built is None else "the version that it loads"
        says += f"; {lacks if has is None or built is None else 'its minor version'} is unknown"
        yield Check(TOPIC, name, CheckState.UNCHECKED, says, missing=(Signal.BUILD,))
        return
    if has[0] != built[0] or (len(built) > 1 and has[1] < built[1]):
        least, cuda = ".".join(map(str, built[:2])), major_version(build.get("cuda_version"))
        says = f"{who} was built with cuDNN {required} and loads {shown}{place}"
        wheel = f"{LIBRARY_WHEELS['libcudnn']}-cu{cuda}" if cuda else LIBRARY_WHEELS["libcudnn"]
        remedy = f"`pip install -U '{wheel}>={least},<{built[0] + 1}'`"
        remedy += f", and remove {file} from LD_LIBRARY_PATH" if file and "site-packages" not in file else ""
        yield Check(TOPIC, name, CheckState.WRONG, says, remedy, sources=("cudnn-minor",))
        return
    says = f"{who} loads cuDNN {shown}, built with {required}"
    yield Check(TOPIC, name, CheckState.FINE, says, sources=("cudnn-minor",))


def _plugin_check(name: str, build: Facts) -> Iterator[Check]:
    """Compares JAX's own packages: jaxlib and the CUDA plugin."""
    listed = build.get("plugins")
    plugins = [str(plugin) for plugin in listed if "cuda" in str(plugin)] if isinstance(listed, Mapping) else []
    if not plugins or not build.get("jaxlib_version"):
        return
    other = describe_plugin_mismatch(build)
    if other:
        extra = f"jax[cuda{major_version(build.get('cuda_version')) or 12}]"
        yield Check(
            TOPIC, f"{name} plugin", CheckState.WRONG, other, f"`pip install -U '{extra}'`", sources=("jax-plugin",)
        )
        return
    says = f"jaxlib {build.get('jaxlib_version')} and {', '.join(plugins)} have the same version"
    yield Check(TOPIC, f"{name} plugin", CheckState.FINE, says, sources=("jax-plugin",))


def _find_loaded_cudnn(build: Facts) -> tuple[tuple[int, ...] | None, str]:
    """Version and file of the loaded cuDNN.

    The loader's result would not tell, because frameworks have their own folders.
    """
    found = [row for row in object_rows(build.get("loaded")) if _file_name(row.get("file")).startswith("libcudnn.so")]
    row: Facts = found[0] if len(found) == 1 else {}
    file = str(row.get("file") or "")
    version = parse_version(build.get("cudnn_loaded")) or parse_version(row.get("version"))
    return version or parse_version(_file_name(file).removeprefix("libcudnn.so.")), file


def _file_name(file: object) -> str:
    return str(file or "").rpartition("/")[2]


def _code_checks(facts: Facts, name: str, build: Facts, gpu: Facts) -> Iterator[Check]:
    """Whether the build has code for this GPU."""
    kind, who = code_kind(name, build, gpu), build_label(name, build)
    where, has = f"{name} code", gpu.get("compute_capability")
    listed = ", ".join(map(str, build.get("capabilities") or ()))
    if kind is None:
        why = "its list of compute capabilities is unknown"
        if name == "jax":
            why = "compiles for the card that it finds; which cards its compiler supports is unknown"
        for topic in (TOPIC, PTX_CAUSE):
            yield Check(topic, where, CheckState.UNCHECKED, f"{who} {why}", missing=(Signal.BUILD,))
        return
    sources = ("cuda-binary", "tensorflow-capabilities") if name == "tensorflow" else ("cuda-binary",)
    if kind == "none":
        says = f"{who} has no code for compute capability {has}: it was built for {listed}"
        remedy = f"install a build that lists {has} (`slowtrain doctor` shows it), or build from source for it"
        yield Check(TOPIC, where, CheckState.WRONG, says, remedy, sources=sources)
        yield Check(PTX_CAUSE, where, CheckState.FINE, f"{who} has nothing to compile", sources=sources)
        return
    yield Check(TOPIC, where, CheckState.FINE, f"{who} has code for compute capability {has}", sources=sources)
    if kind == "machine":
        says = f"{who} has machine code for compute capability {has}"
        yield Check(PTX_CAUSE, where, CheckState.FINE, says, sources=sources)
        return
    yield _ptx_check(facts, name, build, gpu, listed)


def _ptx_check(facts: Facts, name: str, build: Facts, gpu: Facts, listed: str) -> Check:
    who, has = build_label(name, build), gpu.get("compute_capability")
    says = (
        f"{who} has no machine code for compute capability {has} (it was built for {listed}): the driver "
        "compiles every kernel at the first start"
    )
    remedy = (
        f"install a newer release or NVIDIA's container image whose list has {has}; until then keep the compiled "
        "kernels: `export CUDA_CACHE_MAXSIZE=4294967296`, and no CUDA_CACHE_DISABLE"
    )
    cuda, speaks = parse_version(build.get("cuda_version")), parse_version(nested_fact(facts, "gpu", "cuda_version"))
    sources = ["cuda-binary", "tensorflow-ptx"]
    if cuda and speaks and speaks[:2] < cuda[:2]:
        says += (
            f"; driver {nested_fact(facts, 'gpu', 'driver_version')} (CUDA "
            f"{nested_fact(facts, 'gpu', 'cuda_version')}) is too old to"
        )
        remedy = f"update the driver to one of CUDA {build.get('cuda_version')} or newer; then {remedy}"
        sources.append("cuda-ptx-driver")
    return Check(PTX_CAUSE, f"{name} code", CheckState.WRONG, says, remedy, sources=tuple(sources))


def _duplicate_checks(builds: Mapping[str, Facts]) -> Iterator[Check]:
    """Two files of one library in one process: which one a call reaches is undefined.

    Files that are on the disk but not loaded do not matter: each framework loads from its own folder.
    """
    for name, build in builds.items():
        files: dict[str, list[str]] = {}
        for row in object_rows(build.get("loaded")):
            stem = re.split(r"-[0-9a-f]{8}\.so|\.so", _file_name(row.get("file")))[0]
            files.setdefault(stem, []).append(str(row.get("file")))
        several = [(stem, found) for stem, found in files.items() if len(found) > 1]
        if several:
            stem, found = several[0]
            more = f" (and {len(several) - 1} more)" if len(several) > 1 else ""
            says = f"{build_label(name, build)} has loaded {stem} {len(found)} times{more}: {', '.join(found)}"
            yield Check(TOPIC, f"{name} duplicates", CheckState.NOTED, says)


def parse_capability(text: Any) -> tuple[int, int] | None:
    """(8, 6) of "8.6"."""
    found = re.fullmatch(r"(\d+)\.(\d+)", str(text or ""))
    return (int(found[1]), int(found[2])) if found else None


def code_kind(name: str, build: Facts, gpu: Facts) -> str | None:
    """``machine`` code, ``ptx`` that the driver has to compile, or ``none``; None if either side is unknown."""
    has, lists = parse_capability(gpu.get("compute_capability")), build.get("capabilities")
    if has is None or not isinstance(lists, (list, tuple)) or not lists:
        return None
    binary: list[tuple[int, int, str]] = []
    virtual: list[tuple[int, int]] = []
    for architecture in lists:
        found = re.fullmatch(r"(sm_|compute_)?(\d+)\.?(\d)([af]?)", str(architecture))
        if found is None:
            return None  # a list that cannot be read completely proves nothing
        one = (int(found[2]), int(found[3]))
        # TensorFlow's compute_xy contains both kinds, and so does x.y; PyTorch lists them separately
        # (tensorflow-capabilities).
        if found[1] == "sm_" or name == "tensorflow":
            binary.append((*one, found[4]))
        if found[1] != "sm_" and not found[4]:
            virtual.append(one)
    if any(_runs_on(code, has) for code in binary):
        return "machine"
    return "ptx" if any(one <= has for one in virtual) else "none"


def _runs_on(code: tuple[int, int, str], has: tuple[int, int]) -> bool:
    """Machine code runs on its own major version, from its own minor version on.

    With the suffix "a" it runs on exactly one.
    """
    if code[2] == "a":
        return code[:2] == has
    return code[0] == has[0] and code[1] <= has[1]


def minimum_driver(facts: Facts, build: Facts) -> tuple[int, ...] | None:
    """The oldest driver that runs the build's CUDA; None if no rule is known."""
    # In WSL the driver is the Windows driver.
    system = "Windows" if nested_fact(facts, "devices", "wsl") else str(nested_fact(facts, "platform", "system"))
    return MINIMUM_DRIVER.get(system, {}).get(major_version(build.get("cuda_version")) or 0)


def describe_old_driver(facts: Facts, build: Facts) -> str | None:
    """A sentence if the driver is too old for the build; None if it is not, or if that is unknown."""
    least, has = minimum_driver(facts, build), parse_version(nested_fact(facts, "gpu", "driver_version"))
    speaks = parse_version(nested_fact(facts, "gpu", "cuda_version"))
    if least is None or has is None or has >= least:
        return None
    built = parse_version(build.get("cuda_version"))
    # A driver below the limit normally supports at most the major version's first CUDA. If it supports more, a forward
    # compatibility package is installed.
    if speaks is not None and built is not None and (speaks[:2] >= built[:2] or speaks[:2] > (built[0], 0)):
        return None
    return (
        f"driver {nested_fact(facts, 'gpu', 'driver_version')} is older than {'.'.join(map(str, least))}, "
        f"which CUDA {build.get('cuda_version')} needs"
    )


def describe_plugin_mismatch(build: Facts) -> str | None:
    """A sentence if JAX ignores its CUDA plugin because jaxlib has another version; else None."""
    has, plugins = parse_version(build.get("jaxlib_version")), build.get("plugins")
    if has is None or not isinstance(plugins, Mapping):
        return None
    for name, text in plugins.items():
        version = parse_version(text) if "cuda" in str(name) else None
        if version is not None and version != has:
            return f"{name} {text} cannot be used with jaxlib {build.get('jaxlib_version')}"
    return None
