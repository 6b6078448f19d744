"""Whether the frameworks see the GPU, and why not, for ``machine/gpu-unseen``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from slowtrain.figures import counted
from slowtrain.machine import kernels
from slowtrain.machine.libraries import major, wanted
from slowtrain.machine.reading import (
    NAMES,
    Facts,
    at,
    backend,
    builds,
    called,
    card,
    cards,
    container,
    others,
    present,
    rows,
    version,
)
from slowtrain.machine.rules import FIRST_CUDA_EXTRA, LAST_NATIVE_WINDOWS, WHEELS
from slowtrain.model import Signal
from slowtrain.model.sheet import Check, State

CAUSE = "machine/gpu-unseen"
Reason = tuple[str, str, tuple[str, ...]]  # finding, remedy, sources
GIVE = {
    "docker": (
        "start it with `docker run --gpus all …`; the host needs the NVIDIA Container Toolkit for that",
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
INSTALL = {"ubuntu": "`sudo ubuntu-drivers install`", "debian": "`sudo apt install nvidia-driver`, of non-free"}
GUIDE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/ has the command"


def seeing(facts: Facts) -> Iterator[Check]:
    """Checks the driver, then each framework."""
    first = _driver(facts)
    yield first
    if present(facts) and others(facts):
        says = f"{', '.join(others(facts))}: of no other maker than NVIDIA is looked at"
        yield Check(CAUSE, "other GPUs", State.UNCHECKED, says, sources=("pci-vendors",), missing=(Signal.CARD,))
    asked = builds(facts)
    if not asked:
        says = "no framework was asked"
        yield Check(CAUSE, "frameworks", State.UNCHECKED, says, missing=(Signal.BUILD,))
    for name, build in asked.items():
        found = _framework(facts, name, build)
        # A framework that training does not use does no harm if it sees no GPU. And while the driver shows no GPU, no
        # framework can be the reason.
        spared = name not in (backend(facts), next(iter(asked))) or first.state is State.WRONG
        if found.state is State.WRONG and spared:
            found = Check(CAUSE, found.name, State.NOTED, found.says, numbers=found.numbers, sources=found.sources)
        yield found
    if cards(facts) and rows(at(facts, "libraries")):
        yield _tried(rows(at(facts, "libraries")))


def _driver(facts: Facts) -> Check:
    there = present(facts)
    shown = cards(facts)
    if shown:
        names = ", ".join(dict.fromkeys(str(gpu.get("name")) for gpu in shown))
        says = f"driver {at(facts, 'gpu', 'driver_version')} shows {counted(len(shown), 'GPU')}: {names}"
        return Check(CAUSE, "driver", State.FINE, says, numbers={"gpus": float(len(shown))})
    if there is None:
        says = "the system does not show whether there is a GPU (no PCI bus to read)"
        if rows(at(facts, "devices", "files")):
            looked = at(facts, "devices", "wsl_driver") is False
            says = "/dev/dxg is there for any maker's GPU; NVIDIA's library in /usr/lib/wsl/lib "
            says += "is not" if looked else "was not looked for"
        return Check(CAUSE, "driver", State.UNCHECKED, says, missing=(Signal.CARD,))
    if not there and others(facts):
        says = f"no NVIDIA GPU here, but {', '.join(others(facts))}: of no other maker than NVIDIA is looked at"
        return Check(CAUSE, "driver", State.UNCHECKED, says, sources=("pci-vendors",), missing=(Signal.CARD,))
    if not there:
        return Check(CAUSE, "driver", State.FINE, "no NVIDIA GPU on this computer, none missed")
    says, remedy, sources = _hidden(facts)
    return Check(CAUSE, "driver", State.WRONG, says, remedy, sources=sources)


def _hidden(facts: Facts) -> Reason:
    """Why the driver shows no GPU although there is one: finding, remedy, sources."""
    pci = rows(at(facts, "devices", "pci_gpus"))
    files = rows(at(facts, "devices", "files"))
    loaded, said = at(facts, "devices", "kernel_driver"), at(facts, "gpu", "unmeasured") or "NVML gave no answer"
    where = f"NVIDIA GPU at PCI {pci[0].get('address')}" if pci else "an NVIDIA GPU"
    inside = container(facts)
    if at(facts, "devices", "wsl"):
        says = f"the GPU is there (/dev/dxg), but the driver's library does not load ({said})"
        return says, "update the driver in Windows, then `wsl --update`; install no Linux driver in WSL", ("wsl",)
    give, source = GIVE.get(inside or "", GIVE["docker"])
    if not files and inside:
        return f"{where}, but this container was given no /dev/nvidia*", give, (source,)
    if inside and "unknown error" in str(said).lower():
        says = f"{where}, and NVML says {said!r}, as in a container that has lost its GPUs: that happens when systemd "
        says += "on the host reloads its units"
        remedy = "end this container and start it anew; release 1.18 or newer of the NVIDIA Container Toolkit on the "
        return says, f"{remedy}host keeps them", ("container-lost",)
    blocked = [f for f in files if f.get("usable") is False]
    if blocked:
        return _blocked(where, blocked, give if inside else None)
    if at(facts, "devices", "nouveau") and not loaded:
        return f"{where}, but the nouveau driver holds it", f"{_install(facts)}; NVIDIA's turns nouveau off", ()
    if not loaded:
        return f"{where}, but NVIDIA's kernel driver is not loaded", _install(facts), ()
    if "mismatch" in str(said).lower():
        says = f"the loaded kernel driver is {loaded}, and its libraries are of another version ({said})"
        return says, "reboot: the driver was updated while the old one was loaded", ()
    return f"{where}, driver {loaded} is loaded, but does not answer: {said}", "run `nvidia-smi`; it says more", ()


def _blocked(where: str, files: list[Facts], give: str | None) -> Reason:
    """Device files exist but may not be opened. ``give``: how this kind of container is given a GPU."""
    why = sorted({str(f.get("refused")) for f in files if f.get("refused")})
    says = f"{where}; this process may not open {', '.join(str(f.get('path')) for f in files)}"
    says += f" ({', '.join(why)})" if why else ""
    group, first = next((f.get("group") for f in files if f.get("group")), None), files[0].get("path")
    if give and why == ["EPERM"]:
        return f"{says}: the container's rules for devices forbid it", give, ("container-gpu",)
    if group and group != "root":
        return says, f"`sudo usermod -aG {group} $USER`, then log in again: members of that group may", ()
    return says, f"`ls -l {first}` shows who may open it: run as that user", ()


def _install(facts: Facts) -> str:
    """How to install NVIDIA's driver on this distribution; a container's own distribution is not the host's."""
    inside, system = container(facts), at(facts, "platform", "distribution", "id")
    how = INSTALL.get(str(system)) if not inside else None
    on = "on the host " if inside else ""
    return f"{on}install NVIDIA's driver ({how or GUIDE}), reboot; if it is installed: `sudo modprobe nvidia`"


def _framework(facts: Facts, name: str, build: Facts) -> Check:
    who, seen, there = called(name, build), build.get("gpus"), present(facts)
    if build.get("error") or seen is None:
        says = f"{NAMES.get(name, name)} gave no answer: {build.get('error') or 'not asked'}"
        return Check(CAUSE, name, State.UNCHECKED, says, missing=(Signal.BUILD,))
    if seen:
        hidden = len(cards(facts)) - int(seen)
        more = f", of {len(cards(facts))}" if hidden > 0 else ""
        visible = _visible(facts)
        because = hidden > 0 and visible is not None and left(visible, len(cards(facts))) == seen
        more += f": CUDA_VISIBLE_DEVICES={str(visible)[:60]!r} leaves the others out" if because else ""
        state = State.NOTED if hidden > 0 else State.FINE
        return Check(CAUSE, name, state, f"{who} sees {counted(seen, 'GPU')}{more}", numbers={"gpus": float(seen)},
                     sources=("cuda-variables",) if because else ())  # fmt: skip
    if there is False and others(facts):
        says = f"{who} sees no GPU; the {others(facts)[0]} was not looked at"
        return Check(CAUSE, name, State.UNCHECKED, says, missing=(Signal.CARD,))
    if there is False:
        return Check(CAUSE, name, State.FINE, f"{who} sees no GPU, and there is none")
    if there is None:
        says = f"{who} sees no GPU; whether there is one was not to be seen"
        mac = name == "tensorflow" and at(facts, "platform", "system") == "Darwin"
        says = f"{who} sees no GPU, and has no official support for those of macOS" if mac else says
        return Check(CAUSE, name, State.UNCHECKED, says, sources=("tensorflow-macos",) if mac else (),
                     missing=(Signal.CARD,))  # fmt: skip
    why, remedy, sources = _blind(facts, name, build)
    return Check(CAUSE, name, State.WRONG, f"{who} sees no GPU: {why}", remedy, sources=sources)


def _visible(facts: Facts) -> str | None:
    found = at(facts, "environment", "CUDA_VISIBLE_DEVICES")
    return found if isinstance(found, str) else None


def left(visible: str, count: int) -> int | None:
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


def _blind(facts: Facts, name: str, build: Facts) -> Reason:
    """Why a framework sees no GPU although there is one: finding, remedy, sources; the most certain reason first."""
    system, number = at(facts, "platform", "system"), version(build.get("version")) or ()
    found = _windows(facts, name, number) if system == "Windows" else None
    found = found or _left_out(facts, name)
    if found:
        return found
    if not build.get("cuda_build") and not build.get("rocm_build"):
        return "this is a build for the CPU alone", _cuda_build(facts, name, number), ("tensorflow-cuda-wheels",)
    if not cards(facts):
        return "the driver shows none either", "first the driver", ()
    found = _undivided(facts) or _lacking(facts, name, build)
    if found:
        return found
    old = kernels.driver_too_old(facts, build)
    if old:
        return old, "update the driver (machine/library-mismatch says to which version)", ("cuda-driver",)
    other = kernels.other_plugin(build)
    if other:
        return other, _cuda_build(facts, name, number), ("jax-plugin",)
    none = [card(gpu) for gpu in cards(facts) if kernels.code_for(name, build, gpu) == "none"]
    if none:
        return f"it has no code for {', '.join(none)}", "see machine/library-mismatch", ("cuda-binary",)
    if "libraries" not in facts:  # facts of a run: no library was tried, and no framework was asked in its own process
        return "the run does not tell why", "run `slowtrain doctor`: it tries the libraries and hears what it says", ()
    words = "; ".join(str(line) for line in build.get("said") or ()) or "it does not say why"
    remedy = f"reason not found; its own words: run `python -m slowtrain.capture.builds {name}` and read stderr"
    return words[:200], remedy, ()


def _windows(facts: Facts, name: str, number: tuple[int, ...]) -> Reason | None:
    """A framework that uses no GPU on native Windows, but does in WSL2."""
    there = "train in WSL2: `wsl --install`, then there "
    if name == "tensorflow" and number[:2] > LAST_NATIVE_WINDOWS:
        remedy = f"{there}`pip install 'tensorflow[and-cuda]'`"
        return "from 2.11 on it uses none on native Windows", remedy, ("tensorflow-windows",)
    if name == "jax":
        remedy = there + _cuda_build(facts, name, number)
        return "there is no build of it for GPUs on native Windows", remedy, ("jax-platforms",)
    return None


def _left_out(facts: Facts, name: str) -> Reason | None:
    """Settings that exclude the GPU."""
    visible, shown = _visible(facts), len(cards(facts))
    if visible is not None and left(visible, shown or sys.maxsize) == 0:
        numbers = ",".join(str(index) for index in range(shown or 1))
        hides = not visible.strip() or visible.strip().startswith("-1")
        why = "hides them all" if hides else f"begins with none of the GPUs here ({numbers}), and so hides them all"
        remedy = f"`unset CUDA_VISIBLE_DEVICES`, or name the GPUs: `export CUDA_VISIBLE_DEVICES={numbers}`"
        return f"CUDA_VISIBLE_DEVICES={visible[:60]!r} {why}", remedy, ("cuda-variables",)
    platforms = at(facts, "environment", "JAX_PLATFORMS") if name == "jax" else None
    if isinstance(platforms, str) and platforms and not {"gpu", "cuda", "rocm"} & set(platforms.lower().split(",")):
        return f"JAX_PLATFORMS={platforms[:60]} leaves it out", "`unset JAX_PLATFORMS`", ("jax-flags",)
    return None


def _undivided(facts: Facts) -> Reason | None:
    """MIG is on, and no GPU has an instance."""
    if not all(gpu.get("mig_mode") and gpu.get("mig_instances") == 0 for gpu in cards(facts)):
        return None
    index = cards(facts)[0].get("index")
    why = "MIG is on and no instance was made, so that no program can compute"
    return why, f"`sudo nvidia-smi -i {index} -mig 0` turns it off; or make instances of it", ("mig-instances",)


def _cuda_build(facts: Facts, name: str, number: tuple[int, ...]) -> str:
    """How to install a CUDA build of this framework."""
    exact = ".".join(map(str, number))
    if name == "tensorflow" and at(facts, "platform", "system") in ("Linux", None):
        if number[:2] >= FIRST_CUDA_EXTRA:
            return f"`pip uninstall tensorflow-cpu`, then `pip install 'tensorflow[and-cuda]=={exact}'`"
        return f"`pip uninstall tensorflow-cpu`, then `pip install tensorflow=={exact}` and the CUDA it was built with"
    if name == "jax":
        cuda = major(at(facts, "gpu", "cuda_version")) or 12
        return f"`pip install -U 'jax[cuda{12 if cuda < 13 else 13}]'`"
    if name == "torch":
        return "install PyTorch's build for CUDA: https://pytorch.org/get-started/locally/ gives the command"
    return "install a build with CUDA"


def _lacking(facts: Facts, name: str, build: Facts) -> Reason | None:
    """The libraries that this build needs and the loader does not find."""
    needed = wanted(build.get("cuda_version"), build.get("cudnn_version"))
    missing = [row for row in rows(at(facts, "libraries")) if row.get("name") in needed and not row.get("loaded")]
    if not missing:
        return None
    names = ", ".join(str(row.get("name")) for row in missing)
    broken = next((row for row in missing if row.get("found")), None)
    why = f"{names} could not be loaded"
    why += f" ({broken.get('error')})" if broken else ", no such file where the loader looks"
    if any(str(row.get("name")).startswith("libcuda.so") for row in missing):
        if container(facts):
            return why, "start the container with `-e NVIDIA_DRIVER_CAPABILITIES=compute,utility`", ("container-gpu",)
        return why, "this library is the driver's: reinstall NVIDIA's driver with its compute part", ()
    number = version(build.get("version")) or ()
    wheels = " ".join(dict.fromkeys(w for row in missing if (w := _wheel(str(row.get("name")), build))))
    if wheels:
        remedy = f"`pip install {wheels}`"
        if name == "tensorflow" and number[:2] >= FIRST_CUDA_EXTRA:
            remedy += f", or all that it needs: `pip install 'tensorflow[and-cuda]=={'.'.join(map(str, number))}'`"
        return why, remedy, ("cuda-sonames", "tensorflow-cuda-wheels")
    return why, "install the CUDA toolkit that the build names", ("cuda-sonames",)


def _tried(libraries: list[Facts]) -> Check:
    """Summary of the tried libraries. Only noted, because a framework finds its own libraries anywhere."""
    lacking = [str(row.get("name")) for row in libraries if not row.get("loaded")]
    several = [str(row.get("name")) for row in libraries if len(row.get("found") or ()) > 1]
    says = f"{len(libraries) - len(lacking)} of {len(libraries)} libraries load by their names"
    says += f", not {', '.join(lacking)}" if lacking else ""
    says += f"; several files lie on the way of {', '.join(several)}" if several else ""
    return Check(CAUSE, "libraries", State.NOTED, says)


def _wheel(library: str, build: Facts) -> str | None:
    stem, cuda = library.partition(".so")[0], major(build.get("cuda_version"))
    if stem not in WHEELS or cuda is None:
        return None
    if stem == "libcudnn":
        least = ".".join((build.get("cudnn_version") or "").split(".")[:2])
        return f"'{WHEELS[stem]}-cu{cuda}>={least}'" if least else f"{WHEELS[stem]}-cu{cuda}"
    return f"{WHEELS[stem]}-cu{cuda}" if cuda < 13 else WHEELS[stem]
