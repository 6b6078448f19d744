"""Whether code, CUDA and driver go together with a card: the rules alone."""

from __future__ import annotations

import pytest

from slowtrain.machine.checks import library_checks
from slowtrain.machine.host.cuda_libraries import file_version, required_libraries
from slowtrain.machine.tables.rule_table import CUDA_LIBRARIES, LIBRARY_WHEELS, SOURCES

PIP_219 = ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"]
TORCH = ["sm_70", "sm_80", "sm_90a", "compute_80"]


@pytest.mark.parametrize(
    ("framework", "lists", "has", "expected"),
    [
        ("tensorflow", PIP_219, "7.5", "machine"),  # 7.0's code runs on 7.5
        ("tensorflow", PIP_219, "9.0", "machine"),  # compute_90 holds both kinds in TensorFlow's list
        ("tensorflow", PIP_219, "12.0", "ptx"),
        ("tensorflow", PIP_219, "5.2", "none"),
        ("tensorflow", ["sm_75"], "7.0", "none"),  # newer code of the same major version does not run
        ("torch", TORCH, "8.6", "machine"),
        ("torch", TORCH, "9.0", "machine"),  # 9.0a is its very own
        ("torch", ["sm_90a", "compute_80"], "9.2", "ptx"),
        ("torch", ["sm_70"], "8.0", "none"),
        ("torch", [], "8.0", None),
        ("tensorflow", ["sm_70", "rdna"], "8.0", None),
        ("tensorflow", PIP_219, None, None),
        ("tensorflow", ["3.5", "7.0"], "7.5", "machine"),
    ],
)
def test_code_for_a_card(framework: str, lists: list[str], has: str | None, expected: str | None) -> None:
    build, gpu = {"capabilities": lists}, {"compute_capability": has}
    assert library_checks.code_kind(framework, build, gpu) == expected


@pytest.mark.parametrize(
    ("system", "wsl", "driver", "speaks", "cuda", "old"),
    [
        ("Linux", False, "525.60.13", "12.0", "12.5.1", False),
        ("Linux", False, "525.60.11", "11.8", "12.5.1", True),
        ("Linux", False, "470.82.01", "12.4", "12.5.1", False),  # a compatibility package speaks for it
        ("Linux", False, "470.82.01", "11.4", "11.8", False),
        ("Linux", False, "570.86.10", "12.8", "13.0", True),
        ("Linux", False, "470.82.01", "11.4", "14.1", False),  # no rule is known
        ("Windows", None, "452.06", "11.0", "11.2", True),
        ("Linux", True, "528.33", "12.0", "12.2", False),
        ("Linux", True, "512.15", "11.6", "12.2", True),  # in WSL the driver is that of Windows
    ],
)
def test_the_oldest_driver(system: str, wsl: bool | None, driver: str, speaks: str, cuda: str, old: bool) -> None:
    facts = {
        "platform": {"system": system},
        "devices": {"wsl": wsl},
        "gpu": {"driver_version": driver, "cuda_version": speaks},
    }
    said = library_checks.describe_old_driver(facts, {"cuda_version": cuda})
    assert (said is not None) == old
    assert not old or driver in str(said)


def test_libraries_are_those_of_the_build() -> None:
    assert required_libraries("12.5.1", "9.3") == ("libcuda.so.1", *CUDA_LIBRARIES[12], "libcudnn.so.9")
    assert required_libraries("99", None) == ("libcuda.so.1",)
    assert required_libraries(None, None) == ("libcuda.so.1",)
    assert {name.partition(".so")[0] for names in CUDA_LIBRARIES.values() for name in names} <= set(LIBRARY_WHEELS)


def test_versions_of_files() -> None:
    assert file_version("/usr/lib/libcudnn.so.8.9.7") == (8, 9, 7)
    assert file_version("/usr/lib/libcudnn.so.9") is None


def test_every_rule_has_its_source_and_day() -> None:
    for key, source in SOURCES.items():
        assert source.key == key
        assert len(source.where) > 10
        assert source.says
        assert source.date
