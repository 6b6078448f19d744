"""Whether the frameworks see the GPU, and why not, for ``machine/gpu-unseen``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from slowtrain.machine.checks import library_checks
from slowtrain.machine.host.cuda_libraries import major_version, required_libraries
from slowtrain.machine.tables.fact_access import (
    FRAMEWORK_TITLES,
    Facts,
    build_label,
    container_kind,
    driver_gpus,
    framework_builds,
    gpu_label,
    has_nvidia_gpu,
    keras_backend_name,
    nested_fact,
    object_rows,
    other_gpu_labels,
    parse_version,
)
from slowtrain.machine.tables.rule_table import FIRST_CUDA_EXTRA, LAST_NATIVE_WINDOWS, LIBRARY_WHEELS
from slowtrain.model import Signal
from slowtrain.model.inspections import Check, CheckState
from slowtrain.number_text import format_count

TOPIC = "gpu visibility"
Reason = tuple[str, str, tuple[str, ...]]  # finding, remedy, sources
CONTAINER_GPU_REMEDIES = {
    "docker": (
        "start it with `docker run --gpus all …`; this needs the NVIDIA Container Toolkit on the host",
        "container-gpu",
    ),
    "podman": (
        "start it with `podman run --device nvidia.com/gpu=all …`; the host needs the NVIDIA Container Toolkit",
        "container-gpu",
    ),
    "kubernetes": (
        "ask for it in the pod's `resources.limits`: `nvidia.com/gpu: 1`; the cluster needs NVIDIA's device plugin",
        "kubernetes-gpu",
    ),
    "apptainer": ("start it with `apptainer exec --nv …` (`singularity exec --nv …`)", "apptainer-gpu"),
}
DRIVER_INSTALL_COMMANDS = {
    "ubuntu": "`sudo ubuntu-drivers install`",
    "debian": "`sudo apt install nvidia-driver`, of non-free",
}
DRIVER_GUIDE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/ has the command"


def check_visibility(facts: Facts) -> Iterator[Check]:
    """Checks the driver, then each framework."""
    first = _driver_check(facts)
    yield first
    if has_nvidia_gpu(facts) and other_gpu_labels(facts):
        says = f"{', '.join(other_gpu_labels(facts))}; only NVIDIA GPUs are checked"
        yield Check(TOPIC, "other GPUs", CheckState.UNCHECKED, says, sources=("pci-vendors",), missing=(Signal.CARD,))
    asked = framework_builds(facts)
    if not asked:
        says = "no framework was asked"
        yield Check(TOPIC, "frameworks", CheckState.UNCHECKED, says, missing=(Signal.BUILD,))
    for name, build in asked.items():
        found = _framework_check(facts, name, build)
        # A framework that training does not use does no harm if it sees no GPU. And while the driver shows no GPU, no
        # framework can be the reason.
        spared = name not in (keras_backend_name(facts), next(iter(asked))) or first.state is CheckState.WRONG
        if found.state is CheckState.WRONG and spared:
            found = Check(TOPIC, found.name, CheckState.NOTED, found.says, numbers=found.numbers, sources=found.sources)
        yield found
    if driver_gpus(facts) and object_rows(nested_fact(facts, "libraries")):
        yield _library_summary(object_rows(nested_fact(facts, "libraries")))


def _driver_check(facts: Facts) -> Check:
    there = has_nvidia_gpu(facts)
    shown = driver_gpus(facts)
    if shown:
        names = ", ".join(dict.fromkeys(str(gpu.get("name")) for gpu in shown))
        says = f"driver {nested_fact(facts, 'gpu', 'driver_version')} shows {format_count(len(shown), 'GPU')}: {names}"
        return Check(TOPIC, "driver", CheckState.FINE, says, numbers={"gpus": float(len(shown))})
    if there is None:
        says = "the system has no PCI bus that shows whether there is a GPU"
        if object_rows(nested_fact(facts, "devices", "files")):
            looked = nested_fact(facts, "devices", "wsl_driver") is False
            says = "/dev/dxg exists for a GPU of any maker; NVIDIA's library in /usr/lib/wsl/lib "
            says += "is not" if looked else "was not looked for"
        return Check(TOPIC, "driver", CheckState.UNCHECKED, says, missing=(Signal.CARD,))
    if not there and other_gpu_labels(facts):
        says = f"no NVIDIA GPU here, but {', '.join(other_gpu_labels(facts))}; only NVIDIA GPUs are checked"
        return Check(TOPIC, "driver", CheckState.UNCHECKED, says, sources=("pci-vendors",), missing=(Signal.CARD,))
    if not there:
        return Check(TOPIC, "driver", CheckState.FINE, "no NVIDIA GPU on this computer, and none expected")
    says, remedy, sources = _hidden_gpu_reason(facts)
    return Check(TOPIC, "driver", CheckState.WRONG, says, remedy, sources=sources)


def _hidden_gpu_reason(facts: Facts) -> Reason:
    """Why the driver shows no GPU although there is one: finding, remedy, sources."""
    pci = object_rows(nested_fact(facts, "devices", "pci_gpus"))
    files = object_rows(nested_fact(facts, "devices", "files"))
    loaded, message = (
        nested_fact(facts, "devices", "kernel_driver"),
        nested_fact(facts, "gpu", "unmeasured") or "NVML gave no answer",
    )
    where = f"NVIDIA GPU at PCI {pci[0].get('address')}" if pci else "an NVIDIA GPU"
    inside = container_kind(facts)
    if nested_fact(facts, "devices", "wsl"):
        says = f"the GPU is present (/dev/dxg), but the driver's library does not load ({message})"
        return says, "update the driver in Windows, then `wsl --update`; install no Linux driver in WSL", ("wsl",)
    give, source = CONTAINER_GPU_REMEDIES.get(inside or "", CONTAINER_GPU_REMEDIES["docker"])
    if not files and inside:
        return f"{where}, but this container has no /dev/nvidia*", give, (source,)
    if inside and "unknown error" in str(message).lower():
        says = (
            f"{where}, and NVML reports {message!r}, as in a container that lost its GPUs: this happens when systemd "
        )
        says += "on the host reloads its units"
        remedy = "stop this container and start it again; release 1.18 or newer of the NVIDIA Container Toolkit on the "
        return says, f"{remedy}host keeps them", ("container-lost",)
    blocked = [f for f in files if f.get("usable") is False]
    if blocked:
        return _blocked_files_reason(where, blocked, give if inside else None)
    if nested_fact(facts, "devices", "nouveau") and not loaded:
        return (
            f"{where}, but the nouveau driver controls it",
            f"{_driver_install_remedy(facts)}; NVIDIA's driver disables nouveau",
            (),
        )
    if not loaded:
        return f"{where}, but NVIDIA's kernel driver is not loaded", _driver_install_remedy(facts), ()
    if "mismatch" in str(message).lower():
        says = f"the loaded kernel driver is {loaded}, and its libraries have another version ({message})"
        return says, "reboot: the driver was updated while the old one was loaded", ()
    return f"{where}, driver {loaded} is loaded, but does not answer: {message}", "run `nvidia-smi` for details", ()


def _blocked_files_reason(where: str, files: list[Facts], give: str | None) -> Reason:
    """Device files exist but may not be opened. ``give``: how this kind of container is given a GPU."""
    why = sorted({str(f.get("refused")) for f in files if f.get("refused")})
    says = f"{where}; this process may not open {', '.join(str(f.get('path')) for f in files)}"
    says += f" ({', '.join(why)})" if why else ""
    group, first = next((f.get("group") for f in files if f.get("group")), None), files[0].get("path")
    if give and why == ["EPERM"]:
        return f"{says}: the container's device rules forbid it", give, ("container-gpu",)
    if group and group != "root":
        return says, f"`sudo usermod -aG {group} $USER`, then log in again: members of that group may open it", ()
    return says, f"`ls -l {first}` shows who may open it: run as that user", ()


def _driver_install_remedy(facts: Facts) -> str:
    """How to install NVIDIA's driver on this distribution; a container's own distribution is not the host's."""
    inside, system = container_kind(facts), nested_fact(facts, "platform", "distribution", "id")
    how = DRIVER_INSTALL_COMMANDS.get(str(system)) if not inside else None
    on = "on the host " if inside else ""
    return f"{on}install NVIDIA's driver ({how or DRIVER_GUIDE}), reboot; if it is installed: `sudo modprobe nvidia`"


def _framework_check(facts: Facts, name: str, build: Facts) -> Check:
    who, seen, there = build_label(name, build), build.get("gpus"), has_nvidia_gpu(facts)
    if build.get("error") or seen is None:
        says = f"{FRAMEWORK_TITLES.get(name, name)} gave no answer: {build.get('error') or 'not asked'}"
        return Check(TOPIC, name, CheckState.UNCHECKED, says, missing=(Signal.BUILD,))
    if seen:
        hidden = len(driver_gpus(facts)) - int(seen)
        more = f", of {len(driver_gpus(facts))}" if hidden > 0 else ""
        visible = _visible_devices(facts)
        because = hidden > 0 and visible is not None and count_visible(visible, len(driver_gpus(facts))) == seen
        more += f": CUDA_VISIBLE_DEVICES={str(visible)[:60]!r} leaves the others out" if because else ""
        state = CheckState.NOTED if hidden > 0 else CheckState.FINE
        return Check(TOPIC, name, state, f"{who} sees {format_count(seen, 'GPU')}{more}", numbers={"gpus": float(seen)},
                     sources=("cuda-variables",) if because else ())  # fmt: skip
    if there is False and other_gpu_labels(facts):
        says = f"{who} sees no GPU; the {other_gpu_labels(facts)[0]} was not checked"
        return Check(TOPIC, name, CheckState.UNCHECKED, says, missing=(Signal.CARD,))
    if there is False:
        return Check(TOPIC, name, CheckState.FINE, f"{who} sees no GPU, and there is none")
    if there is None:
        says = f"{who} sees no GPU; whether there is one is unknown"
        mac = name == "tensorflow" and nested_fact(facts, "platform", "system") == "Darwin"
        says = f"{who} sees no GPU, and does not officially support GPUs on macOS" if mac else says
        return Check(TOPIC, name, CheckState.UNCHECKED, says, sources=("tensorflow-macos",) if mac else (),
                     missing=(Signal.CARD,))  # fmt: skip
    why, remedy, sources = _unseen_gpu_reason(facts, name, build)
    return Check(TOPIC, name, CheckState.WRONG, f"{who} sees no GPU: {why}", remedy, sources=sources)


def _visible_devices(facts: Facts) -> str | None:
    found = nested_fact(facts, "environment", "CUDA_VISIBLE_DEVICES")
    return found if isinstance(found, str) else None


def count_visible(visible: str, count: int) -> int | None:
    """How many of ``count`` GPUs CUDA_VISIBLE_DEVICES leaves: the entries before the first invalid one.

    None if it names GPUs by UUID (which the facts do not hold), or names one of them twice.
    """
    seen: list[str] = []
    for entry in visible.split(","):
        number = entry.strip()
        if number.upper().startswith(("GPU-", "MIG-")) or number in seen:
            return None
        if not number.isdecimal() or int(number) >= count:
            break
        seen.append(number)
    return len(seen)


def _unseen_gpu_reason(facts: Facts, name: str, build: Facts) -> Reason:
    """Why a framework sees no GPU although there is one: finding, remedy, sources; the most certain reason first."""
    system, number = nested_fact(facts, "platform", "system"), parse_version(build.get("version")) or ()
    found = _windows_reason(facts, name, number) if system == "Windows" else None
    found = found or _excluded_by_settings(facts, name)
    if found:
        return found
    if not build.get("cuda_build") and not build.get("rocm_build"):
        return "this build is for the CPU only", _cuda_build_remedy(facts, name, number), ("tensorflow-cuda-wheels",)
    if not driver_gpus(facts):
        return "the driver shows none either", "fix the driver first", ()
    found = _missing_mig_reason(facts) or _missing_library_reason(facts, name, build)
    if found:
        return found
    old = library_checks.describe_old_driver(facts, build)
    if old:
        return old, "update the driver (<versions> names the version)", ("cuda-driver",)
    other = library_checks.describe_plugin_mismatch(build)
    if other:
        return other, _cuda_build_remedy(facts, name, number), ("jax-plugin",)
    none = [gpu_label(gpu) for gpu in driver_gpus(facts) if library_checks.code_kind(name, build, gpu) == "none"]
    if none:
        return f"it has no code for {', '.join(none)}", "see <versions>", ("cuda-binary",)
    if "libraries" not in facts:  # facts of a run: no library was tried, and no framework was asked in its own process
        return (
            "the run does not record why",
            "run `slowtrain doctor`: it loads the libraries and reads their errors",
            (),
        )
    words = "; ".join(str(line) for line in build.get("said") or ()) or "it does not report why"
    remedy = (
        "reason not found; to see its own messages, run `python -m slowtrain.capture.inspection.framework_builds "
        f"{name}` and read stderr"
    )
    return words[:200], remedy, ()


def _windows_reason(facts: Facts, name: str, number: tuple[int, ...]) -> Reason | None:
    """A framework that uses no GPU on native Windows, but does in WSL2."""
    there = "train in WSL2: run `wsl --install`, then in WSL2 "
    if name == "tensorflow" and number[:2] > LAST_NATIVE_WINDOWS:
        remedy = f"{there}`pip install 'tensorflow[and-cuda]'`"
        return "since 2.11 it uses none on native Windows", remedy, ("tensorflow-windows",)
    if name == "jax":
        remedy = there + _cuda_build_remedy(facts, name, number)
        return "it has no GPU build for native Windows", remedy, ("jax-platforms",)
    return None


def _excluded_by_settings(facts: Facts, name: str) -> Reason | None:
    """Settings that exclude the GPU."""
    visible, shown = _visible_devices(facts), len(driver_gpus(facts))
    if visible is not None and count_visible(visible, shown or sys.maxsize) == 0:
        numbers = ",".join(str(index) for index in range(shown or 1))
        hides = not visible.strip() or visible.strip().startswith("-1")
        why = "hides all GPUs" if hides else f"starts with a missing GPU ({numbers} exist), which hides all GPUs"
        remedy = f"`unset CUDA_VISIBLE_DEVICES`, or list the GPUs: `export CUDA_VISIBLE_DEVICES={numbers}`"
        return f"CUDA_VISIBLE_DEVICES={visible[:60]!r} {why}", remedy, ("cuda-variables",)
    platforms = nested_fact(facts, "environment", "JAX_PLATFORMS") if name == "jax" else None
    if isinstance(platforms, str) and platforms and not {"gpu", "cuda", "rocm"} & set(platforms.lower().split(",")):
        return f"JAX_PLATFORMS={platforms[:60]} leaves it out", "`unset JAX_PLATFORMS`", ("jax-flags",)
    return None


def _missing_mig_reason(facts: Facts) -> Reason | None:
    """MIG is on, and no GPU has an instance."""
    if not all(gpu.get("mig_mode") and gpu.get("mig_instances") == 0 for gpu in driver_gpus(facts)):
        return None
    index = driver_gpus(facts)[0].get("index")
    why = "MIG is on and no instance was created, so no program can compute"
    return why, f"`sudo nvidia-smi -i {index} -mig 0` turns it off; or create instances", ("mig-instances",)


def _cuda_build_remedy(facts: Facts, name: str, number: tuple[int, ...]) -> str:
    """How to install a CUDA build of this framework."""
    exact = ".".join(map(str, number))
    if name == "tensorflow" and nested_fact(facts, "platform", "system") in ("Linux", None):
        if number[:2] >= FIRST_CUDA_EXTRA:
            return f"`pip uninstall tensorflow-cpu`, then `pip install 'tensorflow[and-cuda]=={exact}'`"
        return (
            f"`pip uninstall tensorflow-cpu`, then `pip install tensorflow=={exact}` and the CUDA version of its build"
        )
    if name == "jax":
        cuda = major_version(nested_fact(facts, "gpu", "cuda_version")) or 12
        return f"`pip install -U 'jax[cuda{12 if cuda < 13 else 13}]'`"
    if name == "torch":
        return "install PyTorch's build for CUDA: https://pytorch.org/get-started/locally/ gives the command"
    return "install a build with CUDA"


def _missing_library_reason(facts: Facts, name: str, build: Facts) -> Reason | None:
    """The libraries that this build needs and the loader does not find."""
    needed = required_libraries(build.get("cuda_version"), build.get("cudnn_version"))
    missing = [
        row
        for row in object_rows(nested_fact(facts, "libraries"))
        if row.get("name") in needed and not row.get("loaded")
    ]
    if not missing:
        return None
    names = ", ".join(str(row.get("name")) for row in missing)
    broken = next((row for row in missing if row.get("found")), None)
    why = f"{names} could not be loaded"
    why += f" ({broken.get('error')})" if broken else ", no such file in the loader's search path"
    if any(str(row.get("name")).startswith("libcuda.so") for row in missing):
        if container_kind(facts):
            return why, "start the container with `-e NVIDIA_DRIVER_CAPABILITIES=compute,utility`", ("container-gpu",)
        return why, "this library belongs to the driver: reinstall NVIDIA's driver with its compute part", ()
    number = parse_version(build.get("version")) or ()
    wheels = " ".join(dict.fromkeys(w for row in missing if (w := _library_wheel(str(row.get("name")), build))))
    if wheels:
        remedy = f"`pip install {wheels}`"
        if name == "tensorflow" and number[:2] >= FIRST_CUDA_EXTRA:
            remedy += (
                f", or everything that it needs: `pip install 'tensorflow[and-cuda]=={'.'.join(map(str, number))}'`"
            )
        return why, remedy, ("cuda-sonames", "tensorflow-cuda-wheels")
    return why, "install the CUDA version of the build", ("cuda-sonames",)


def _library_summary(libraries: list[Facts]) -> Check:
    """Summary of the tried libraries. Only noted, because a framework finds its own libraries anywhere."""
    lacking = [str(row.get("name")) for row in libraries if not row.get("loaded")]
    several = [str(row.get("name")) for row in libraries if len(row.get("found") or ()) > 1]
    says = f"{len(libraries) - len(lacking)} of {len(libraries)} libraries load by name"
    says += f", not {', '.join(lacking)}" if lacking else ""
    says += f"; several files match {', '.join(several)}" if several else ""
    return Check(TOPIC, "libraries", CheckState.NOTED, says)


def _library_wheel(library: str, build: Facts) -> str | None:
    stem, cuda = library.partition(".so")[0], major_version(build.get("cuda_version"))
    if stem not in LIBRARY_WHEELS or cuda is None:
        return None
    if stem == "libcudnn":
        least = ".".join((build.get("cudnn_version") or "").split(".")[:2])
        return f"'{LIBRARY_WHEELS[stem]}-cu{cuda}>={least}'" if least else f"{LIBRARY_WHEELS[stem]}-cu{cuda}"
    return f"{LIBRARY_WHEELS[stem]}-cu{cuda}" if cuda < 13 else LIBRARY_WHEELS[stem]
