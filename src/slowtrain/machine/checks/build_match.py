"""Whether a build's code, its CUDA version and the driver fit a GPU. Pure functions over the rule table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slowtrain.machine.host.cuda_libraries import major_version
from slowtrain.machine.tables.fact_access import Facts, nested_fact, parse_version
from slowtrain.machine.tables.rule_table import MINIMUM_DRIVER


def parse_capability(said: Any) -> tuple[int, int] | None:
    """(8, 6) of "8.6"."""
    found = re.fullmatch(r"(\d+)\.(\d+)", str(said or ""))
    return (int(found[1]), int(found[2])) if found else None


def code_kind(name: str, build: Facts, gpu: Facts) -> str | None:
    """``machine`` code, ``ptx`` that the driver has to compile, or ``none``; None if either side is unknown."""
    has, lists = parse_capability(gpu.get("compute_capability")), build.get("capabilities")
    if has is None or not isinstance(lists, (list, tuple)) or not lists:
        return None
    binary: list[tuple[int, int, str]] = []
    virtual: list[tuple[int, int]] = []
    for said in lists:
        found = re.fullmatch(r"(sm_|compute_)?(\d+)\.?(\d)([af]?)", str(said))
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
    for name, said in plugins.items():
        made = parse_version(said) if "cuda" in str(name) else None
        if made is not None and made != has:
            return f"{name} {said} cannot be used with jaxlib {build.get('jaxlib_version')}"
    return None
