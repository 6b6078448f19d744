"""What frameworks say of themselves, in a child; and the load that is put on a card, here on the CPU."""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from slowtrain.capture import builds, load
from slowtrain.machine import frameworks, loading


def _tf(info: dict[str, Any]) -> Any:
    threading = SimpleNamespace(get_intra_op_parallelism_threads=lambda: 0, get_inter_op_parallelism_threads=lambda: 2)
    return SimpleNamespace(
        __version__="2.10.1",
        sysconfig=SimpleNamespace(get_build_info=lambda: info),
        config=SimpleNamespace(threading=threading),
    )


def test_a_build_for_windows_names_its_versions_in_its_own_way() -> None:
    info = {"is_cuda_build": True, "is_rocm_build": False, "cuda_version": "64_112", "cudnn_version": "64_8",
            "cuda_compute_capabilities": ["sm_35", "compute_80"]}  # fmt: skip
    found = builds.tensorflow_build(_tf(info))
    assert (found["cuda_version"], found["cudnn_version"]) == ("11.2", "8")
    assert found["capabilities"] == ["sm_35", "compute_80"]
    assert found["threads"] == {"intra_op": 0, "inter_op": 2}


def test_a_build_that_says_nothing_of_cuda() -> None:
    found = builds.tensorflow_build(_tf({}))
    assert (found["cuda_build"], found["cuda_version"], found["capabilities"]) == (False, None, [])


@pytest.mark.parametrize(("number", "version"), [(8907, "8.9.7"), (90100, "9.1.0"), (91002, "9.10.2"), (None, None)])
def test_cudnns_numbers(number: int | None, version: str | None) -> None:
    torch = SimpleNamespace(backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: number)))
    assert builds._torch_cudnn(torch) == version


def test_a_framework_that_cannot_be_imported_is_an_error_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert json.loads(builds.main("torch").removeprefix(builds.MARK))["error"].startswith("ModuleNotFoundError")


def test_both_sides_agree_on_names_and_marks() -> None:
    assert (builds.MARK, builds.__name__) == (frameworks.MARK, frameworks.MODULE)
    assert set(frameworks.NAMES) == set(builds.BUILDS) == set(load.LOADS)
    assert (load.MARK, load.__name__) == (loading.MARK, loading.MODULE)


@pytest.mark.tensorflow
def test_tensorflow_is_asked_in_a_child() -> None:
    found = frameworks.framework("tensorflow", {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"})
    assert "error" not in found
    assert found["gpus"] == 0
    assert found["version"].startswith("2.")
    assert isinstance(found["cuda_build"], bool)
    assert found["threads"] == {"intra_op": 0, "inter_op": 0}


@pytest.mark.tensorflow
def test_the_load_copies_and_tells_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "COPY_BYTES", 1 << 20)
    said: list[dict[str, Any]] = []
    load.run("tensorflow", 0.05, "CPU", lambda line: said.append(json.loads(line)))
    begun, ended = said
    assert begun == {"device": 0, "begun": True}
    assert ended["bytes_per_second"] > 1e6
