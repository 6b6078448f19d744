"""What frameworks say of themselves, in a child; and the load that is put on a card, here on the CPU."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slowtrain.capture.inspection import framework_builds
from slowtrain.capture.process import gpu_load
from slowtrain.doctor import facts_document


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
    found = framework_builds.tensorflow_build(_tf(info))
    assert (found["cuda_version"], found["cudnn_version"]) == ("11.2", "8")
    assert found["capabilities"] == ["sm_35", "compute_80"]
    assert found["threads"] == {"intra_op": 0, "inter_op": 2}


def test_a_build_that_says_nothing_of_cuda() -> None:
    found = framework_builds.tensorflow_build(_tf({}))
    assert (found["cuda_build"], found["cuda_version"], found["capabilities"]) == (False, None, [])


@pytest.mark.parametrize(("number", "version"), [(8907, "8.9.7"), (90100, "9.1.0"), (91002, "9.10.2"), (None, None)])
def test_cudnns_numbers(number: int | None, version: str | None) -> None:
    torch = SimpleNamespace(backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: number)))
    assert framework_builds._torch_cudnn(torch) == {"cudnn_version": None, "cudnn_loaded": version}


def test_pytorch_tells_what_it_was_built_with_and_what_it_loaded() -> None:
    def refuses() -> int:
        raise RuntimeError("cuDNN version incompatibility")

    own = SimpleNamespace(getCompileVersion=lambda: (9, 19, 0), getRuntimeVersion=lambda: (9, 14, 0))
    cudnn = SimpleNamespace(version=refuses)
    torch = SimpleNamespace(_C=SimpleNamespace(_cudnn=own), backends=SimpleNamespace(cudnn=cudnn))
    assert framework_builds._torch_cudnn(torch) == {"cudnn_version": "9.19.0", "cudnn_loaded": "9.14.0"}


def test_jax_tells_by_its_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> int:
        raise RuntimeError("no cuDNN")

    versions = SimpleNamespace(cudnn_build_version=lambda: 91200, cudnn_get_version=lambda: 91900)
    monkeypatch.setitem(sys.modules, "jax_cuda13_plugin", SimpleNamespace(__path__=[]))
    monkeypatch.setitem(sys.modules, "jax_cuda13_plugin._versions", versions)
    assert framework_builds._jax_cudnn("jax-cuda13-plugin") == {"cudnn_version": "9.12.0", "cudnn_loaded": "9.19.0"}
    versions.cudnn_get_version = none
    assert framework_builds._jax_cudnn("jax-cuda13-plugin") == {"cudnn_version": "9.12.0", "cudnn_loaded": None}
    assert (
        framework_builds._jax_cudnn("jax-cuda12-plugin")
        == framework_builds._jax_cudnn(None)
        == dict.fromkeys(("cudnn_version", "cudnn_loaded"))
    )


def test_the_files_that_a_process_has_loaded(tmp_path: Path) -> None:
    wheel = "/venv/site-packages/nvidia/cudnn/lib"
    rows = [
        f"7f0 r-xp 0 08:01 11 {wheel}/libcudnn.so.9",
        f"7f1 r--p 0 08:01 11 {wheel}/libcudnn.so.9",
        f"7f2 r-xp 0 08:01 12 {wheel}/libcudnn_ops.so.9",
        "7f3 r-xp 0 08:01 13 /a folder/libcudart-a7b20f20.so.11.0",
        "7f4 r-xp 0 08:01 14 /usr/lib/libcublas.so.12 (deleted)",
        "7f5 r-xp 0 08:01 15 /usr/lib/libc.so.6",
        "7f6 rw-p 0 00:00 0 [heap]",
    ]
    maps = tmp_path / "maps"
    maps.write_text("\n".join(rows))
    assert framework_builds.mapped_cuda_libraries(maps) == [
        "/a folder/libcudart-a7b20f20.so.11.0", "/usr/lib/libcublas.so.12", f"{wheel}/libcudnn.so.9"
    ]  # fmt: skip
    assert framework_builds.mapped_cuda_libraries(tmp_path / "none") is None


def test_a_framework_that_cannot_be_imported_is_an_error_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert json.loads(framework_builds.build_line("torch").removeprefix(framework_builds.LINE_MARK))[
        "error"
    ].startswith("ModuleNotFoundError")


def test_both_sides_agree_on_names_and_marks() -> None:
    assert (framework_builds.LINE_MARK, framework_builds.__name__) == (
        facts_document.ANSWER_PREFIX,
        facts_document.BUILD_MODULE,
    )
    assert (
        set(facts_document.FRAMEWORK_NAMES) == set(framework_builds.BUILD_READERS) == set(gpu_load.TURNS_BY_FRAMEWORK)
    )
    assert (gpu_load.LINE_MARK, gpu_load.__name__) == (facts_document.PROGRESS_PREFIX, facts_document.LOAD_MODULE)


@pytest.mark.tensorflow
def test_tensorflow_is_asked_in_a_child() -> None:
    found = facts_document.ask_framework("tensorflow", {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"})
    assert "error" not in found
    assert found["gpus"] == 0
    assert found["version"].startswith("2.")
    assert isinstance(found["cuda_build"], bool)
    assert found["threads"] == {"intra_op": 0, "inter_op": 0}


@pytest.mark.tensorflow
def test_the_load_copies_and_tells_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_load, "COPY_BYTES", 1 << 20)
    monkeypatch.setattr(gpu_load, "MATRIX_SIDE", 64)
    said: list[dict[str, Any]] = []
    gpu_load.load_devices("tensorflow", 0.05, "CPU", lambda line: said.append(json.loads(line)))
    begun, ended = said
    assert begun == {"device": 0, "begun": True}
    assert ended["bytes_per_second"] > 1e6
    assert ended["computed_seconds"] >= 0.025  # of 0.05: what lies between the turns does not count
