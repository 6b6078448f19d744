"""Whether driver, CUDA, cuDNN, build and card go together: ``machine/library-mismatch``, ``startup/jit-from-ptx``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slowtrain.machine import kernels
from slowtrain.machine.libraries import file_version
from slowtrain.machine.reading import Facts, at, builds, called, card, cards, present, rows, version
from slowtrain.model import Signal
from slowtrain.model.sheet import Check, State

CAUSE = "machine/library-mismatch"
COMPILED = "startup/jit-from-ptx"


def matching(facts: Facts) -> Iterator[Check]:
    """For every build with CUDA: driver, cuDNN, then the code for each card."""
    made = {name: build for name, build in builds(facts).items() if build.get("cuda_build")}
    if not made or not cards(facts):
        yield from _nothing(facts, bool(made))
        return
    for name, build in made.items():
        yield _driver(facts, name, build)
        yield from _cudnn(facts, name, build)
        for gpu in cards(facts):
            for check in _code(facts, name, build, gpu):
                yield replace(check, where=card(gpu))
    yield from _twice(facts)


def _nothing(facts: Facts, made: bool) -> Iterator[Check]:
    """No build with CUDA, or no card that the driver shows."""
    for cause in (CAUSE, COMPILED):
        if present(facts) is False:
            yield Check(cause, "match", State.FINE, "no NVIDIA GPU here, nothing to match")
        elif builds(facts) and not made:
            says = "no framework here was built with CUDA"
            yield Check(cause, "match", State.UNCHECKED, says, missing=(Signal.BUILD,))
        else:
            missing = (Signal.CARD,) if made else (Signal.BUILD,)
            says = "the driver shows no card" if made else "no framework was asked how it was built"
            yield Check(cause, "match", State.UNCHECKED, says, missing=missing)


def _driver(facts: Facts, name: str, build: Facts) -> Check:
    least, has = kernels.least_driver(facts, build), at(facts, "gpu", "driver_version")
    who, cuda = called(name, build), build.get("cuda_version")
    if least is None or version(has) is None:
        says = f"{who}: no rule for CUDA {cuda or 'unknown'} and driver {has or 'unknown'}"
        return Check(CAUSE, f"{name} driver", State.UNCHECKED, says, missing=(Signal.BUILD,))
    old, wanted = kernels.driver_too_old(facts, build), ".".join(map(str, least))
    if old:
        remedy = f"install driver {wanted} or newer (`nvidia-smi` shows the new one after a reboot)"
        return Check(CAUSE, f"{name} driver", State.WRONG, f"{who}: {old}", remedy, sources=("cuda-driver",))
    says = f"CUDA {cuda} runs on driver {has} ({wanted} or newer)"
    return Check(CAUSE, f"{name} driver", State.FINE, says, sources=("cuda-driver",))


def _cudnn(facts: Facts, name: str, build: Facts) -> Iterator[Check]:
    """The cuDNN that would be loaded, against the build's own."""
    built = version(build.get("cudnn_version"))
    if built is None:
        return
    row = next((r for r in rows(at(facts, "libraries")) if str(r.get("name")).startswith("libcudnn.so.")), None)
    loaded = str(row.get("loaded") or "") if row else ""
    has, who = version(row.get("version")) if row else None, called(name, build)
    has = has or file_version(loaded)
    if has is None and len(built) == 1 and loaded and str(row.get("name") if row else "").endswith(f".so.{built[0]}"):
        yield Check(CAUSE, f"{name} cuDNN", State.FINE, f"cuDNN {built[0]}, as built", sources=("cudnn-minor",))
        return
    if has is None:
        says = f"built with cuDNN {build.get('cudnn_version')}; the version of the one found is not told"
        yield Check(CAUSE, f"{name} cuDNN", State.UNCHECKED, says, missing=(Signal.BUILD,))
        return
    shown = ".".join(map(str, has))
    says = f"{who} was built with cuDNN {build.get('cudnn_version')}, the loader takes {shown} ({loaded})"
    if len(built) > 1 and (has[0] != built[0] or has[1] < built[1]):
        least = ".".join(map(str, built[:2]))
        remedy = f"`pip install -U 'nvidia-cudnn-cu12>={least},<{built[0] + 1}'`, and take {loaded} off LD_LIBRARY_PATH"
        if str(build.get("cuda_version") or "").startswith("12") is False:
            remedy = f"install cuDNN {least} or a newer {built[0]}, and take {loaded} off LD_LIBRARY_PATH"
        yield Check(CAUSE, f"{name} cuDNN", State.WRONG, says, remedy, sources=("cudnn-minor",))
    else:
        fine = f"cuDNN {shown}; built with {build.get('cudnn_version')}"
        yield Check(CAUSE, f"{name} cuDNN", State.FINE, fine, sources=("cudnn-minor",))


def _code(facts: Facts, name: str, build: Facts, gpu: Facts) -> Iterator[Check]:
    """Whether the build has code for this card."""
    kind, who = kernels.code_for(name, build, gpu), called(name, build)
    where, has = f"{name} code", gpu.get("compute_capability")
    listed = ", ".join(map(str, build.get("capabilities") or ()))
    if kind is None:
        why = "compiles for the card it finds" if name == "jax" else "its list of compute capabilities is not known"
        state = State.FINE if name == "jax" and has else State.UNCHECKED
        for cause in (CAUSE, COMPILED):
            missing = () if state is State.FINE else (Signal.BUILD,)
            yield Check(cause, where, state, f"{who} {why}", missing=missing)
        return
    sources = ("cuda-binary", "tensorflow-capabilities") if name == "tensorflow" else ("cuda-binary",)
    if kind == "none":
        says = f"{who} has no code for compute capability {has}: it was built for {listed}"
        remedy = f"install a build that lists {has} (`slowtrain doctor` shows it), or build from source for it"
        yield Check(CAUSE, where, State.WRONG, says, remedy, sources=sources)
        yield Check(COMPILED, where, State.FINE, f"{who} has nothing to compile", sources=sources)
        return
    yield Check(CAUSE, where, State.FINE, f"{who} has code for compute capability {has}", sources=sources)
    if kind == "machine":
        says = f"{who} has machine code for compute capability {has}"
        yield Check(COMPILED, where, State.FINE, says, sources=sources)
        return
    yield _compiled(facts, name, build, gpu, listed)


def _compiled(facts: Facts, name: str, build: Facts, gpu: Facts, listed: str) -> Check:
    who, has = called(name, build), gpu.get("compute_capability")
    says = (
        f"{who} has no machine code for compute capability {has} (it was built for {listed}): the driver "
        "compiles every kernel at the first start"
    )
    remedy = (
        f"install a newer release or NVIDIA's container image whose list has {has}; until then keep what was compiled: "
        "`export CUDA_CACHE_MAXSIZE=4294967296`, and no CUDA_CACHE_DISABLE"
    )
    cuda, speaks = version(build.get("cuda_version")), version(at(facts, "gpu", "cuda_version"))
    sources = ["cuda-binary", "tensorflow-ptx"]
    if cuda and speaks and speaks[:2] < cuda[:2]:
        says += f"; driver {at(facts, 'gpu', 'driver_version')} (CUDA {at(facts, 'gpu', 'cuda_version')}) is too old to"
        remedy = f"update the driver to one of CUDA {build.get('cuda_version')} or newer; then {remedy}"
        sources.append("cuda-ptx-driver")
    return Check(COMPILED, f"{name} code", State.WRONG, says, remedy, sources=tuple(sources))


def _twice(facts: Facts) -> Iterator[Check]:
    """Libraries of which several different files can be found: the order of the path decides."""
    several = [row for row in rows(at(facts, "libraries")) if len(row.get("found") or ()) > 1]
    if several:
        row = several[0]
        more = f" (and {len(several) - 1} more)" if len(several) > 1 else ""
        says = f"{row.get('name')} is there {len(row['found'])} times{more}: {', '.join(map(str, row['found']))}"
        yield Check(CAUSE, "duplicates", State.NOTED, says)
