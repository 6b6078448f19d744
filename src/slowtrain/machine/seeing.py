"""Whether the frameworks see the GPU that is there, and why not: of ``machine/gpu-unseen``."""

from __future__ import annotations

from collections.abc import Iterator

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
    plural,
    present,
    rows,
    version,
)
from slowtrain.machine.rules import FIRST_CUDA_EXTRA, LAST_NATIVE_WINDOWS, WHEELS
from slowtrain.model import Signal
from slowtrain.model.sheet import Check, State

CAUSE = "machine/gpu-unseen"
GIVE = {
    "docker": "start it with `docker run --gpus all …`; the host needs the NVIDIA Container Toolkit for that",
    "podman": "start it with `podman run --device nvidia.com/gpu=all …`; the host needs the NVIDIA Container Toolkit",
}


def seeing(facts: Facts) -> Iterator[Check]:
    """The driver's part, then each framework's."""
    first = _driver(facts)
    yield first
    asked = builds(facts)
    if not asked:
        says = "no framework was asked"
        yield Check(CAUSE, "frameworks", State.UNCHECKED, says, missing=(Signal.BUILD,))
    for name, build in asked.items():
        found = _framework(facts, name, build)
        # What is installed beside the framework in use does no harm by seeing no GPU.
        # And while the driver shows no GPU, no framework can be to blame.
        spared = name not in (backend(facts), next(iter(asked))) or first.state is State.WRONG
        if found.state is State.WRONG and spared:
            found = Check(CAUSE, found.name, State.NOTED, found.says, numbers=found.numbers, sources=found.sources)
        yield found


def _driver(facts: Facts) -> Check:
    there = present(facts)
    shown = cards(facts)
    if shown:
        names = ", ".join(dict.fromkeys(str(gpu.get("name")) for gpu in shown))
        says = f"driver {at(facts, 'gpu', 'driver_version')} shows {plural(len(shown), 'GPU')}: {names}"
        return Check(CAUSE, "driver", State.FINE, says, numbers={"gpus": float(len(shown))})
    if there is None:
        says = "the system does not show whether there is a GPU (no PCI bus to read)"
        return Check(CAUSE, "driver", State.UNCHECKED, says, missing=(Signal.CARD,))
    if not there:
        return Check(CAUSE, "driver", State.FINE, "no NVIDIA GPU on this computer, none missed")
    says, remedy, sources = _hidden(facts)
    return Check(CAUSE, "driver", State.WRONG, says, remedy, sources=sources)


def _hidden(facts: Facts) -> tuple[str, str, tuple[str, ...]]:
    """Why the driver shows no GPU where there is one: what was found, what to do, sources."""
    pci = rows(at(facts, "devices", "pci_gpus"))
    files = rows(at(facts, "devices", "files"))
    loaded, said = at(facts, "devices", "kernel_driver"), at(facts, "gpu", "unmeasured") or "NVML gave no answer"
    where = f"NVIDIA GPU at PCI {pci[0].get('address')}" if pci else "an NVIDIA GPU"
    inside = container(facts)
    if at(facts, "devices", "wsl"):
        says = f"the GPU is there (/dev/dxg), but the driver's library does not load ({said})"
        return says, "update the driver in Windows, then `wsl --update`; install no Linux driver in WSL", ("wsl",)
    if not files and inside:
        return (
            f"{where}, but this container was given no /dev/nvidia*",
            GIVE.get(inside, GIVE["docker"]),
            ("container-gpu",),
        )
    blocked = [str(f.get("path")) for f in files if f.get("usable") is False]
    if blocked:
        says = f"{where}; this process may not open {', '.join(blocked)}"
        remedy = f"`ls -l {blocked[0]}` shows which group may: join it (`sudo usermod -aG GROUP $USER`), log in again"
        return says, remedy, ()
    if at(facts, "devices", "nouveau") and not loaded:
        return f"{where}, but the nouveau driver holds it", "install NVIDIA's driver (it turns nouveau off)", ()
    if not loaded:
        remedy = (
            "install NVIDIA's driver (Ubuntu: `sudo ubuntu-drivers install`), reboot; if it is: `sudo modprobe nvidia`"
        )
        return f"{where}, but NVIDIA's kernel driver is not loaded", remedy, ()
    if "mismatch" in str(said).lower():
        says = f"the loaded kernel driver is {loaded}, and its libraries are of another version ({said})"
        return says, "reboot: the driver was updated while the old one was loaded", ()
    return f"{where}, driver {loaded} is loaded, but does not answer: {said}", "run `nvidia-smi`; it says more", ()


def _framework(facts: Facts, name: str, build: Facts) -> Check:
    who, seen, there = called(name, build), build.get("gpus"), present(facts)
    if build.get("error") or seen is None:
        says = f"{NAMES.get(name, name)} gave no answer: {build.get('error') or 'not asked'}"
        return Check(CAUSE, name, State.UNCHECKED, says, missing=(Signal.BUILD,))
    if seen:
        hidden = len(cards(facts)) - int(seen)
        more = f", of {len(cards(facts))}" if hidden > 0 else ""
        state = State.NOTED if hidden > 0 else State.FINE
        return Check(CAUSE, name, state, f"{who} sees {plural(seen, 'GPU')}{more}", numbers={"gpus": float(seen)})
    if there is False:
        return Check(CAUSE, name, State.FINE, f"{who} sees no GPU, and there is none")
    if there is None:
        says = f"{who} sees no GPU; whether there is one was not to be seen"
        return Check(CAUSE, name, State.UNCHECKED, says, missing=(Signal.CARD,))
    why, remedy, sources = _blind(facts, name, build)
    return Check(CAUSE, name, State.WRONG, f"{who} sees no GPU: {why}", remedy, sources=sources)


def _blind(facts: Facts, name: str, build: Facts) -> tuple[str, str, tuple[str, ...]]:
    """Why a framework sees no GPU where there is one; the surest reason first."""
    system, number = at(facts, "platform", "system"), version(build.get("version")) or ()
    visible = at(facts, "environment", "CUDA_VISIBLE_DEVICES")
    if name == "tensorflow" and system == "Windows" and number[:2] > LAST_NATIVE_WINDOWS:
        why = "from 2.11 on it uses none on native Windows"
        return (
            why,
            "train in WSL2: `wsl --install`, then there `pip install 'tensorflow[and-cuda]'`",
            ("tensorflow-windows",),
        )
    if isinstance(visible, str) and (not visible.strip() or visible.strip().startswith("-1")):
        why = f"CUDA_VISIBLE_DEVICES={visible!r} hides them all"
        return (
            why,
            "`unset CUDA_VISIBLE_DEVICES`, or name the GPUs: `export CUDA_VISIBLE_DEVICES=0`",
            ("cuda-variables",),
        )
    platforms = at(facts, "environment", "JAX_PLATFORMS") if name == "jax" else None
    if isinstance(platforms, str) and platforms and not {"gpu", "cuda", "rocm"} & set(platforms.lower().split(",")):
        return f"JAX_PLATFORMS={platforms[:60]} leaves it out", "`unset JAX_PLATFORMS`", ("jax-flags",)
    if not build.get("cuda_build") and not build.get("rocm_build"):
        return "this is a build for the CPU alone", _cuda_build(facts, name, number), ("tensorflow-cuda-wheels",)
    if not cards(facts):
        return "the driver shows none either", "first the driver", ()
    lacking = _lacking(facts, name, build)
    if lacking:
        return lacking
    old = kernels.driver_too_old(facts, build)
    if old:
        return old, "update the driver (machine/library-mismatch says to which version)", ("cuda-driver",)
    none = [card(gpu) for gpu in cards(facts) if kernels.code_for(name, build, gpu) == "none"]
    if none:
        return f"it has no code for {', '.join(none)}", "see machine/library-mismatch", ("cuda-binary",)
    words = "; ".join(str(line) for line in build.get("said") or ()) or "it does not say why"
    remedy = f"reason not found; its own words: run `python -m slowtrain.capture.builds {name}` and read stderr"
    return words[:200], remedy, ()


def _cuda_build(facts: Facts, name: str, number: tuple[int, ...]) -> str:
    """How to get a build with CUDA of this framework."""
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


def _lacking(facts: Facts, name: str, build: Facts) -> tuple[str, str, tuple[str, ...]] | None:
    """The libraries that this build needs and the loader does not find, by name."""
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


def _wheel(library: str, build: Facts) -> str | None:
    stem, cuda = library.partition(".so")[0], major(build.get("cuda_version"))
    if stem not in WHEELS or cuda is None:
        return None
    if stem == "libcudnn":
        least = ".".join((build.get("cudnn_version") or "").split(".")[:2])
        return f"'{WHEELS[stem]}-cu{cuda}>={least}'" if least else f"{WHEELS[stem]}-cu{cuda}"
    return f"{WHEELS[stem]}-cu{cuda}" if cuda < 13 else WHEELS[stem]
