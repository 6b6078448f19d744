"""The doctor's sheet from facts of other machines: what is wrong with each, by which cause, with which remedy."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies
from msgspec.structs import replace

from slowtrain import diagnose
from slowtrain.causes import all_causes
from slowtrain.causes.fact_causes import check_facts, machine_facts
from slowtrain.checkup.external_facts import join_facts
from slowtrain.cli._answers import DAMAGE_ERRORS
from slowtrain.doctor import facts_document
from slowtrain.doctor.machine_sheet import build_sheet, machine_causes, trace_of_facts
from slowtrain.machine.checks.machine_checks import combined_state
from slowtrain.machine.checks.visibility_checks import count_visible
from slowtrain.machine.tables.rule_table import SOURCES
from slowtrain.model import Signal
from slowtrain.model.inspections import Check, CheckState
from slowtrain.report import doctor, pages
from slowtrain.trace import Trace

from .drawn_trace import parse_drawing

FIXTURES = Path(__file__).parent / "machine/fixtures"
FILES = sorted(FIXTURES.glob("*.json"))
WRONG = {
    "healthy_t4": {},
    "cpu_only_vm": {},
    "h100_vm": {},
    "cpu_wheel": {"machine/gpu-unseen": "tensorflow[and-cuda]==2.21.0"},
    "missing_cudnn": {"machine/gpu-unseen": "nvidia-cudnn-cu12"},
    "container_without_gpu": {"machine/gpu-unseen": "--gpus all", "machine/limited-host": "--cpus"},
    "rtx5090_wsl": {"startup/jit-from-ptx": "CUDA_CACHE_MAXSIZE", "machine/limited-host": "WSL's own file system"},
    "worn_v100": {
        "machine/faulty-gpu": "--gpu-reset -i 0",
        "machine/throttled-clock": "-pl 250",
        "machine/busy-gpu": "4711",
        "transfer/slow-link": "16 lanes",
        "machine/slowing-setting": "unset CUDA_LAUNCH_BLOCKING",
        "machine/limited-host": "numactl --cpunodebind=1",
    },
    "old_driver": {"machine/gpu-unseen": "driver", "machine/library-mismatch": "525.60.13"},
    "windows_native": {"machine/gpu-unseen": "WSL2"},
}

each_file = pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)


def facts(name: str) -> dict[str, Any]:
    return facts_document.read_facts_file(FIXTURES / f"{name}.json")


def changed(name: str, *path: str, to: Any) -> dict[str, Any]:
    """A fixture with one fact other than it is."""
    found = facts(name)
    place: Any = found
    for key in path[:-1]:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[int(path[-1]) if isinstance(place, list) else path[-1]] = to
    return found


def named(found: dict[str, Any], cause: str, name: str) -> Check:
    return next(c for c in check_facts(found) if c.cause == cause and c.name == name)


def test_every_fixture_says_where_it_comes_from_and_is_expected() -> None:
    assert {f.stem for f in FILES} == set(WRONG)
    assert all(json.loads(f.read_text())["about"] for f in FILES)


@each_file
def test_what_is_wrong_and_its_remedy(file: Path) -> None:
    found = build_sheet(facts_document.read_facts_file(file), str(file))
    expected = WRONG[file.stem]
    assert {c.cause for c in found.of(CheckState.WRONG)} == set(expected)
    for cause, words in expected.items():
        assert any(words in (c.remedy or "") for c in found.of(CheckState.WRONG) if c.cause == cause)
    assert (found.headline[0] != "n") == bool(expected)
    for check in found.checks:
        assert (check.remedy is not None) == (check.state is CheckState.WRONG)
        assert bool(check.missing) == (check.state is CheckState.UNCHECKED)
        assert set(check.sources) <= set(SOURCES)


@each_file
def test_causes_and_checks_agree(file: Path) -> None:
    """What ``run`` would say of these facts is what the sheet says."""
    found = build_sheet(facts_document.read_facts_file(file))
    for cause, state in found.causes.items():
        checks = tuple(c for c in found.checks if c.cause == cause)
        assert checks, f"nothing was looked at for {cause}"
        said = combined_state(checks)
        assert state is (CheckState.FINE if said is CheckState.NOTED else said)


@each_file
def test_the_text_fits_a_screen(file: Path) -> None:
    for unicode in (True, False):
        lines = doctor.doctor_text(
            build_sheet(facts_document.read_facts_file(file)), width=80, unicode=unicode
        ).splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 80
        assert unicode or all(line.isascii() for line in lines)


def test_nothing_is_cut_off_where_the_screen_has_the_room() -> None:
    said = doctor.doctor_text(build_sheet(facts("h100_vm")), width=80)
    assert len(said.splitlines()) <= 40
    unchecked = " ".join(said.partition("UNCHECKED")[2].split())
    assert "which cards its compiler supports is unknown" in unchecked
    assert "…" not in unchecked
    found = facts("h100_vm")
    found["environment"] = {"CUDA_LAUNCH_BLOCKING": "1", "JAX_DEBUG_NANS": "1"}  # what is wrong takes that room
    assert len(doctor.doctor_text(build_sheet(found), width=80).splitlines()) <= 40


@each_file
def test_its_json_is_read_again_with_the_same_answer(file: Path, tmp_path: Path) -> None:
    first = build_sheet(facts_document.read_facts_file(file))
    (tmp_path / "again.json").write_text(doctor.doctor_json(first))
    assert doctor.doctor_document(
        build_sheet(facts_document.read_facts_file(tmp_path / "again.json"))
    ) == doctor.doctor_document(first)


def test_names_from_somewhere_cannot_break_out_of_the_page() -> None:
    bad = changed("healthy_t4", "gpu", "devices", "0", "name", to="<script>alert(1)</script>\x1b[31m")
    page = pages.doctor_page(build_sheet(bad))
    assert "<script>alert" not in page
    assert "alert(1)" in page
    assert "\x1b" not in doctor.doctor_text(build_sheet(bad))


@pytest.mark.parametrize("name", sorted(WRONG))
def test_without_the_probe_of_frameworks_nothing_of_them_is_fine(name: str) -> None:
    found = facts(name)
    del found["frameworks"]
    asked = {"machine/gpu-unseen", "machine/library-mismatch", "startup/jit-from-ptx"}
    fine = {c.name for c in check_facts(found) if c.cause in asked and c.state is CheckState.FINE}
    assert fine <= {"driver", "match"}
    if found["gpu"]["devices"]:
        assert "match" not in fine


def test_without_a_load_link_and_clock_are_unchecked() -> None:
    found = changed("worn_v100", "load", to={"unmeasured": "--no-load was given", "devices": []})
    for cause, name in (("transfer/slow-link", "link"), ("machine/throttled-clock", "clock")):
        check = named(found, cause, name)
        assert (check.state, check.missing) == (CheckState.UNCHECKED, (Signal.LOAD,))


def test_a_generation_that_the_table_does_not_know_is_unchecked() -> None:
    found = changed("healthy_t4", "gpu", "devices", "0", "pcie_generation_max", to=9)
    assert named(found, "transfer/slow-link", "link").state is CheckState.UNCHECKED


@pytest.mark.parametrize(
    ("path", "to", "words"),
    [
        (("environment",), {"CUDA_VISIBLE_DEVICES": "-1"}, "CUDA_VISIBLE_DEVICES"),
        (("environment",), {"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES"),
        (
            ("environment",),
            {"CUDA_VISIBLE_DEVICES": "7,0"},
            "CUDA_VISIBLE_DEVICES='7,0' starts with a missing GPU (0 exist)",
        ),
        (("gpu", "devices", "0"), {"mig_mode": True, "mig_instances": 0}, "no instance was created"),
        (("libraries", "0", "loaded"), None, "libcuda.so.1"),
        (("frameworks", "tensorflow", "capabilities"), ["sm_80", "compute_90"], "no code for"),
        (("frameworks", "tensorflow", "said"), ["failed call to cuInit: CUDA_ERROR_UNKNOWN"], "cuInit"),
    ],
)
def test_why_a_framework_sees_no_gpu(path: tuple[str, ...], to: Any, words: str) -> None:
    found = changed("healthy_t4", *path, to=to)
    found["frameworks"]["tensorflow"]["gpus"] = 0
    check = named(found, "machine/gpu-unseen", "tensorflow")
    assert check.state is CheckState.WRONG
    assert words in check.says


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"files": [{"path": "/dev/nvidia0", "usable": False}]}, "may not open /dev/nvidia0"),
        ({"kernel_driver": None, "nouveau": True, "files": []}, "nouveau"),
        ({"kernel_driver": None, "files": []}, "not loaded"),
        ({"wsl": True}, "/dev/dxg"),
        ({"files": [{"path": "/dev/nvidiactl", "usable": False, "refused": "EPERM"}]}, "/dev/nvidiactl (EPERM)"),
    ],
)
def test_why_the_driver_shows_no_gpu(change: dict[str, Any], words: str) -> None:
    found = facts("healthy_t4")
    found["devices"].update(change)
    found["gpu"] = {"unmeasured": "Driver/library version mismatch", "devices": []}
    assert words in named(found, "machine/gpu-unseen", "driver").says


def test_a_driver_updated_under_a_running_system_wants_a_reboot() -> None:
    found = facts("healthy_t4")
    found["gpu"] = {"unmeasured": "Driver/library version mismatch", "devices": []}
    assert "reboot" in (named(found, "machine/gpu-unseen", "driver").remedy or "")


def test_a_real_card_in_order() -> None:
    """As `nvidia-smi -q` gave it at the same time: PCIe 5 x16, 1980 MHz, 700 W, 480 MiB reserved, no errors."""
    found = facts("h100_vm")
    said = {(c.cause, c.name): c for c in check_facts(found)}
    link, kept = said["transfer/slow-link", "link"], said["machine/busy-gpu", "processes"]
    assert link.state is CheckState.FINE
    assert link.numbers["link_gbps"] == pytest.approx(16 * 3.938)
    assert "PCIe 5.0 x16" in link.says
    assert "54.4 GB/s" in link.says
    assert kept.says == "the driver lists no other compute process on it (480 MiB kept by the driver)"
    assert said["machine/throttled-clock", "power limit"].says == "700 W, its default"
    assert said["machine/faulty-gpu", "memory errors"].state is CheckState.FINE
    assert said["startup/jit-from-ptx", "torch code"].state is CheckState.FINE
    clock = said["machine/throttled-clock", "clock"]
    assert clock.state is CheckState.FINE
    assert "1980 of 1980 MHz, 407 W, 43 °C, slows down at 89 °C" in clock.says
    # Under copies alone nothing of heat or power can show.
    found["load"]["devices"][0]["computed_seconds"] = 0.0
    assert named(found, "machine/throttled-clock", "clock").state is CheckState.UNCHECKED


def test_libraries_that_lie_there_and_are_not_loaded_are_none_of_its_matter() -> None:
    """The loader finds cuDNN 9.14 there; PyTorch and JAX load 9.19 from its wheel."""
    found = facts("h100_vm")
    assert not any("9.14" in c.says or c.name.endswith("duplicates") for c in check_facts(found))
    files: list[dict[str, str | None]] = [{"file": "/usr/lib/libcudnn.so.9.14.0", "version": "9.14.0"}]
    found["frameworks"]["torch"]["loaded"] = files
    found["frameworks"]["torch"] |= {"cudnn_version": "9.19.0", "cudnn_loaded": None}
    check = named(found, "machine/library-mismatch", "torch cuDNN")
    assert check.state is CheckState.WRONG
    assert check.says == (
        "PyTorch 2.11.0+cu130 was built with cuDNN 9.19.0 and loads 9.14.0 (/usr/lib/libcudnn.so.9.14.0)"
    )
    assert "'nvidia-cudnn-cu13>=9.19,<10'" in str(check.remedy)
    files[0]["version"] = "9.20.1"
    assert named(found, "machine/library-mismatch", "torch cuDNN").state is CheckState.FINE
    files.append({"file": "/opt/other/libcudnn.so.9", "version": None})
    assert named(found, "machine/library-mismatch", "torch cuDNN").state is CheckState.UNCHECKED  # which of them?
    assert "has loaded libcudnn 2 times" in named(found, "machine/library-mismatch", "torch duplicates").says


@pytest.mark.parametrize(
    ("built", "file", "version", "state"),
    [
        (
            "9",
            "/venv/nvidia/cudnn/lib/libcudnn.so.9",
            None,
            CheckState.FINE,
        ),  # TensorFlow tells the major version alone
        ("9", "/venv/nvidia/cudnn/lib/libcudnn.so.9", "9.3.0.75", CheckState.FINE),
        ("9.3", "/venv/nvidia/cudnn/lib/libcudnn.so.9", None, CheckState.UNCHECKED),
        ("9.3", "/venv/nvidia/cudnn/lib/libcudnn.so.9", "9.1.0.70", CheckState.WRONG),
        ("8", "/usr/lib/libcudnn.so.9", None, CheckState.WRONG),
        ("9", None, None, CheckState.UNCHECKED),
    ],
)
def test_cudnn_as_it_is_loaded(built: str, file: str | None, version: str | None, state: CheckState) -> None:
    found = facts("healthy_t4")
    found["frameworks"]["tensorflow"] |= {
        "cudnn_version": built,
        "loaded": [{"file": file, "version": version}] if file else [],
    }
    assert named(found, "machine/library-mismatch", "tensorflow cuDNN").state is state


def test_a_framework_beside_the_one_in_use_may_be_blind() -> None:
    found = facts("healthy_t4")
    found["frameworks"]["torch"] = {"version": "2.9.0+cpu", "cuda_build": False, "rocm_build": False, "gpus": 0}
    assert named(found, "machine/gpu-unseen", "torch").state is CheckState.NOTED
    found["keras_backend"] = "torch"
    assert named(found, "machine/gpu-unseen", "torch").state is CheckState.WRONG


def test_a_quota_counts_when_it_binds() -> None:
    found = changed("container_without_gpu", "cgroup", "throttled_periods", to=3.0)
    assert named(found, "machine/limited-host", "quota").state is CheckState.NOTED
    found["cgroup"]["periods"] = None
    assert named(found, "machine/limited-host", "quota").state is CheckState.UNCHECKED


def test_a_rate_from_the_page_cache_is_not_the_disks() -> None:
    data = {"folder": "/data", "filesystem": "ext4", "kind": "solid-state", "read_files": 9, "read_bytes": 9e6,
            "seconds": 1.0, "bytes_per_second": 9e6, "from_storage_share": 0.2}  # fmt: skip
    check = named({**facts("healthy_t4"), "data": data}, "machine/limited-host", "data folder")
    assert check.state is CheckState.UNCHECKED
    data["from_storage_share"] = 1.0
    check = named({**facts("healthy_t4"), "data": data}, "machine/limited-host", "data folder")
    assert (check.state, check.numbers["bytes_per_second"]) == (CheckState.NOTED, 9e6)


def test_a_small_shared_memory_matters_to_what_uses_it() -> None:
    found = changed("healthy_t4", "memory", "shm_total_bytes", to=64 << 20)
    assert named(found, "machine/limited-host", "shared memory").state is CheckState.NOTED
    found["gpu"]["devices"] *= 2
    assert named(found, "machine/limited-host", "shared memory").state is CheckState.WRONG


def test_in_a_run_the_framework_of_the_run_speaks() -> None:
    """No child was asked there: the run's own devices and its own build information are."""
    machine = facts("cpu_wheel")
    del machine["frameworks"]
    run = {"machine": machine, "devices": [{"kind": "CPU"}], "build": {"version": "2.21.0", "cuda_build": False}}
    trace = Trace(signals=frozenset(Signal), facts=run)
    found = diagnose.diagnose_trace(trace, [c for c in machine_causes() if c.id == "machine/gpu-unseen"])
    assert [d.cause for d in found.diagnoses] == ["machine/gpu-unseen"]
    assert "build is for the CPU" in found.diagnoses[0].evidence.says
    assert machine_facts(trace)["frameworks"]["tensorflow"]["gpus"] == 0


def test_in_a_run_on_jax_jax_is_judged() -> None:
    machine = facts("h100_vm")
    build = {**machine.pop("frameworks")["jax"], "cudnn_version": "9.12.0", "cudnn_loaded": "9.19.0"}
    machine["keras_backend"] = "tensorflow"  # the script chose JAX by itself
    run = {"machine": machine, "devices": [{"kind": "GPU"}], "build": build, "keras": {"backend": "jax"}}
    trace = Trace(signals=frozenset({Signal.FACTS}), facts=run)
    asked = {"machine/gpu-unseen", "machine/library-mismatch", "startup/jit-from-ptx"}
    found = diagnose.diagnose_trace(trace, [c for c in machine_causes() if c.id in asked])
    # Which cards its compiler knows JAX does not tell.
    assert (found.diagnoses, [u.cause for u in found.unchecked]) == ((), ["startup/jit-from-ptx"])
    said = [c.says for c in check_facts(machine_facts(trace)) if c.cause in asked]
    assert "JAX 0.11.2 loads cuDNN 9.19.0, built with 9.12.0" in said
    assert not any("TensorFlow" in one for one in said)
    run["devices"] = [{"kind": "CPU"}]
    found = diagnose.diagnose_trace(
        Trace(signals=frozenset(Signal), facts=run), [c for c in machine_causes() if c.id in asked]
    )
    assert [d.cause for d in found.diagnoses] == ["machine/gpu-unseen"]
    assert "JAX 0.11.2 sees no GPU" in found.diagnoses[0].evidence.says


def test_settings_of_jax() -> None:
    found = facts("h100_vm")
    said = {"JAX_PLATFORMS": "cpu", "JAX_DEBUG_NANS": "1", "XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}
    found["environment"] = said | {"JAX_DEFAULT_MATMUL_PRECISION": "highest", "JAX_DISABLE_JIT": "0"}
    states = {c.name: c.state for c in check_facts(found) if c.cause == "machine/slowing-setting"}
    assert states == {
        "JAX_DEBUG_NANS": CheckState.WRONG, "XLA_PYTHON_CLIENT_ALLOCATOR": CheckState.WRONG,
        "JAX_DEFAULT_MATMUL_PRECISION": CheckState.NOTED,
    }  # fmt: skip
    assert named(found, "machine/gpu-unseen", "jax").state is CheckState.FINE  # it sees one all the same
    found["frameworks"]["jax"]["gpus"] = 0
    assert "JAX_PLATFORMS=cpu leaves it out" in named(found, "machine/gpu-unseen", "jax").says
    found["environment"]["JAX_PLATFORMS"] = "cuda,cpu"
    assert "JAX_PLATFORMS" not in named(found, "machine/gpu-unseen", "jax").says


def test_small_processes_and_the_displays_are_told() -> None:
    found = facts("healthy_t4")
    gpu = found["gpu"]["devices"][0]
    gpu["compute_processes"] = [{"pid": 41, "memory_used_bytes": 200 << 20}]
    gpu["graphics_processes"] = [{"pid": 41, "memory_used_bytes": 0}, {"pid": 7, "memory_used_bytes": 90 << 20}]
    busy, shows = named(found, "machine/busy-gpu", "processes"), named(found, "machine/busy-gpu", "display")
    assert (busy.state, busy.says) == (
        CheckState.NOTED, "1 other process (pid 41) computes on it and holds 200 MiB of 15 GiB",
    )  # fmt: skip
    assert (shows.state, shows.says) == (CheckState.NOTED, "1 other process (pid 7) draws on it and holds 90 MiB")
    gpu |= {"compute_processes": [], "memory_used_bytes": 5 << 30, "memory_reserved_bytes": 400 << 20}
    busy = named(found, "machine/busy-gpu", "processes")
    assert busy.state is CheckState.NOTED
    assert "4.61 GiB of 15 GiB are in use by unknown processes" in busy.says
    gpu["memory_used_bytes"] = 500 << 20
    assert named(found, "machine/busy-gpu", "processes").state is CheckState.FINE


def test_a_busy_card_s_remedy_names_one_that_is_free() -> None:
    found = facts("worn_v100")
    found["gpu"]["devices"].append({**found["gpu"]["devices"][0], "index": 1, "compute_processes": []})
    assert "CUDA_VISIBLE_DEVICES=1`" in str(named(found, "machine/busy-gpu", "processes").remedy)


def test_wsl_alone_is_no_nvidia_gpu() -> None:
    found = facts("rtx5090_wsl")
    found["gpu"] = {"unmeasured": "NVML Shared Library Not Found", "devices": []}
    found["frameworks"]["tensorflow"]["gpus"] = 0
    for told, state in ((False, CheckState.UNCHECKED), (None, CheckState.UNCHECKED), (True, CheckState.WRONG)):
        found["devices"]["wsl_driver"] = told
        assert named(found, "machine/gpu-unseen", "driver").state is state
    found["devices"]["wsl_driver"] = False
    assert named(found, "machine/gpu-unseen", "tensorflow").state is CheckState.UNCHECKED
    assert "/dev/dxg" in named(found, "machine/gpu-unseen", "driver").says


def test_gpus_of_other_makers_are_told_and_not_judged() -> None:
    found = facts("cpu_only_vm")
    found["devices"]["other_gpus"] = [{"address": "0000:00:01.0", "vendor": "0x1234"}]
    answer = build_sheet(found)
    assert answer.causes["machine/gpu-unseen"] is CheckState.FINE
    assert dict(answer.about)["GPU"] == "none; display of QEMU"
    found["devices"]["other_gpus"].append({"address": "0000:03:00.0", "vendor": "0x1002"})
    answer = build_sheet(found)
    assert answer.causes["machine/gpu-unseen"] is CheckState.UNCHECKED
    assert answer.headline.endswith("this machine has no NVIDIA GPU; the AMD GPU at PCI 0000:03:00.0 was not checked")
    assert dict(answer.about)["GPU"] == "none from NVIDIA; AMD GPU at PCI 0000:03:00.0; display of QEMU"
    found = facts("healthy_t4")
    found["devices"]["other_gpus"] = [{"address": "0000:00:02.0", "vendor": "0x8086"}]
    assert named(found, "machine/gpu-unseen", "other GPUs").state is CheckState.UNCHECKED
    assert build_sheet(found).causes["machine/gpu-unseen"] is CheckState.FINE


@pytest.mark.parametrize(
    ("visible", "count", "sees"),
    [
        ("", 4, 0), ("-1", 4, 0), ("0", 4, 1), ("2,1", 4, 2), ("0,2,-1,1", 4, 2), ("7", 1, 0), ("1, 0", 4, 2),
        ("NoDevFiles", 4, 0), ("0,9,1", 4, 1), ("GPU-8932f937", 4, None), ("0,0", 4, None), ("MIG-GPU-1/1/2", 4, None),
    ],
)  # fmt: skip
def test_what_cuda_visible_devices_leaves(visible: str, count: int, sees: int | None) -> None:
    """The examples of NVIDIA's own page among them."""
    assert count_visible(visible, count) == sees


def test_a_hidden_part_names_the_variable() -> None:
    found = facts("healthy_t4")
    found["gpu"]["devices"] = [{**found["gpu"]["devices"][0], "index": i} for i in range(4)]
    found["environment"] = {"CUDA_VISIBLE_DEVICES": "2"}
    check = named(found, "machine/gpu-unseen", "tensorflow")
    assert (check.state, check.sources) == (CheckState.NOTED, ("cuda-variables",))
    assert check.says == "TensorFlow 2.19.0 sees 1 GPU, of 4: CUDA_VISIBLE_DEVICES='2' leaves the others out"
    found["environment"] = {"CUDA_VISIBLE_DEVICES": "2,3"}  # it sees one: another reason
    assert named(found, "machine/gpu-unseen", "tensorflow").says.endswith("sees 1 GPU, of 4")


def test_jax_takes_a_plugin_of_its_own_version_alone() -> None:
    found = facts("h100_vm")
    jax = found["frameworks"]["jax"]
    jax |= {"jaxlib_version": "0.11.2", "plugins": {"jax-cuda13-plugin": "0.11.2.post1"}}
    assert named(found, "machine/library-mismatch", "jax plugin").state is CheckState.FINE
    jax["plugins"] = {"jax-cuda13-plugin": "0.11.1"}
    check = named(found, "machine/library-mismatch", "jax plugin")
    assert (check.state, check.remedy) == (CheckState.WRONG, "`pip install -U 'jax[cuda13]'`")
    jax["gpus"] = 0
    assert "plugin 0.11.1 cannot be used with jaxlib 0.11.2" in named(found, "machine/gpu-unseen", "jax").says


def test_what_jax_compiles_for_is_unchecked() -> None:
    for cause in ("machine/library-mismatch", "startup/jit-from-ptx"):
        assert named(facts("h100_vm"), cause, "jax code").state is CheckState.UNCHECKED


def test_jax_on_native_windows_is_sent_to_wsl() -> None:
    found = facts("windows_native")
    found["keras_backend"] = "jax"
    found["frameworks"] = {"jax": {"version": "0.10.2", "cuda_build": False, "rocm_build": False, "gpus": 0}}
    check = named(found, "machine/gpu-unseen", "jax")
    assert "it has no GPU build for native Windows" in check.says
    assert str(check.remedy).startswith("train in WSL2")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("docker", "--gpus all"), ("podman", "--device nvidia.com/gpu=all"), ("kubernetes", "nvidia.com/gpu: 1"),
        ("apptainer", "--nv"),
    ],
)  # fmt: skip
def test_each_kind_of_container_is_given_a_gpu_in_its_own_way(kind: str, words: str) -> None:
    check = named(changed("container_without_gpu", "platform", "container", to=kind), "machine/gpu-unseen", "driver")
    assert words in str(check.remedy)


def test_a_container_that_has_lost_its_gpus() -> None:
    found = facts("container_without_gpu")
    found["devices"]["files"] = [{"path": "/dev/nvidiactl", "usable": False, "refused": "EPERM"}]
    found["gpu"]["unmeasured"] = "Unknown Error"
    check = named(found, "machine/gpu-unseen", "driver")
    assert "lost its GPUs" in check.says
    assert "start it again" in str(check.remedy)
    found["gpu"]["unmeasured"] = "Insufficient Permissions"
    check = named(found, "machine/gpu-unseen", "driver")
    assert "the container's device rules forbid it" in check.says
    assert "--gpus all" in str(check.remedy)


def test_remedies_are_those_of_this_system() -> None:
    found = facts("healthy_t4")
    found["gpu"] = {"unmeasured": "NVML Shared Library Not Found", "devices": []}
    found["devices"]["files"] = [{"path": "/dev/nvidia0", "usable": False, "group": "render"}]
    assert "usermod -aG render $USER" in str(named(found, "machine/gpu-unseen", "driver").remedy)
    found["devices"] |= {"files": [], "kernel_driver": None}
    for name, words in (
        ("ubuntu", "ubuntu-drivers install"),
        ("debian", "nvidia-driver"),
        ("other", "docs.nvidia.com"),
    ):
        found["platform"]["distribution"] = {"id": name, "name": name}
        assert words in str(named(found, "machine/gpu-unseen", "driver").remedy)
    assert "docker run --cpus 32" in str(named(facts("container_without_gpu"), "machine/limited-host", "quota").remedy)
    assert "cp -r /mnt/c/data ~/data" in str(named(facts("rtx5090_wsl"), "machine/limited-host", "data folder").remedy)


def test_a_run_that_does_not_know_why_names_the_doctor() -> None:
    found = facts("healthy_t4")
    found["frameworks"]["tensorflow"] |= {"gpus": 0, "said": []}
    assert "it does not report why" in named(found, "machine/gpu-unseen", "tensorflow").says
    del found["libraries"]  # which the doctor alone tries
    assert "`slowtrain doctor`" in str(named(found, "machine/gpu-unseen", "tensorflow").remedy)


def test_settings_that_are_read_are_judged() -> None:
    found = facts("healthy_t4")
    found["environment"] = {
        "TF_DISABLE_MKL": "1", "MALLOC_ARENA_MAX": "1", "CUDA_CACHE_MAXSIZE": "1000000", "NCCL_SHM_DISABLE": "1",
        "TF_CUDNN_WORKSPACE_LIMIT_IN_MB": "256",
    }  # fmt: skip
    said = {c.name: c for c in check_facts(found) if c.cause == "machine/slowing-setting"}
    assert {name for name, c in said.items() if c.state is CheckState.NOTED and c.sources} == set(found["environment"])
    found["environment"] = {"MALLOC_ARENA_MAX": "4", "CUDA_CACHE_MAXSIZE": "4294967296",
                            "TF_CUDNN_WORKSPACE_LIMIT_IN_MB": "8192"}  # fmt: skip
    assert {c.name for c in check_facts(found) if c.cause == "machine/slowing-setting"} == {"settings"}
    found["environment"] = {"TF_CPP_MAX_VLOG_LEVEL": "²", "PYTHONTRACEMALLOC": "x"}  # a digit that is no number
    assert {c.name for c in check_facts(found) if c.cause == "machine/slowing-setting"} == {"settings"}


@pytest.mark.parametrize(
    ("threads", "state"), [("32", CheckState.NOTED), ("64", CheckState.NOTED), ("65", CheckState.WRONG)]
)
def test_far_more_threads_than_cores_are_wrong(threads: str, state: CheckState) -> None:
    found = changed("healthy_t4", "environment", to={"OMP_NUM_THREADS": threads})
    check = named(found, "machine/limited-host", "threads")
    assert check.state is state
    assert check.remedy == ("`export OMP_NUM_THREADS=32`" if state is CheckState.WRONG else None)


def test_the_host_and_the_link_in_more_words() -> None:
    found = facts("worn_v100")
    found["numa_distances"] = [[10, 21], [21, 10]]
    assert "(distance 10 within it, 21 to the others)" in named(found, "machine/limited-host", "NUMA").says
    found = changed("healthy_t4", "memory", "swap_free_bytes", to=7 << 30)
    check = named(found, "machine/limited-host", "memory")
    assert (check.state, "1 GiB swapped out" in check.says) == (CheckState.NOTED, True)
    found["load"]["devices"][0]["bytes_per_second"] = 7e9  # of 15.8
    check = named(found, "transfer/slow-link", "link")
    assert (check.state, check.says.endswith("copies reach 7 GB/s, less than half of that")) == (CheckState.NOTED, True)


@pytest.mark.parametrize(
    ("busy", "state", "says"),
    [(1.93, CheckState.NOTED, "other processes use 1.9 of 2 cores now"), (0.04, CheckState.FINE, "0.04 of 2 cores")],
)
def test_cores_that_others_take_are_noted_and_no_fault(busy: float, state: CheckState, says: str) -> None:
    found = facts("cpu_only_vm") | {"others": {"busy_cores": busy, "cores": 2, "seconds": 0.5}}
    check = named(found, "machine/limited-host", "busy")
    assert (check.state, says in check.says, check.remedy) == (state, True, None)
    assert build_sheet(found).headline == build_sheet(facts("cpu_only_vm")).headline
    for broken in (None, {}, {"busy_cores": "x", "cores": 2}, {"busy_cores": 1.0, "cores": 0}):
        assert not [c for c in check_facts(found | {"others": broken}) if c.name == "busy"]


def test_errors_are_counted() -> None:
    found = facts("healthy_t4")
    found["gpu"]["devices"][0]["ecc_corrected"] = 12
    assert named(found, "machine/faulty-gpu", "memory errors").says == (
        "no uncorrectable memory error, 12 corrected ones"
    )
    found["gpu"]["devices"][0]["ecc_uncorrected_ever"] = 2
    assert named(found, "machine/faulty-gpu", "memory errors").says == (
        "no uncorrectable memory error since the driver was loaded (2 in its lifetime), 12 corrected ones"
    )
    found["kernel_log"]["xids"] = [{"address": "0000:3b:00", "code": 31, "count": 3}]
    assert "XIDs 31 (3 times) in" in named(found, "machine/faulty-gpu", "fault log").says
    found["kernel_log"]["xids"].append({"address": "0000:3b:00", "code": 79, "count": 2})
    assert "XID 79 (2 times), the GPU has fallen off the bus" in named(found, "machine/faulty-gpu", "fault log").says


def test_what_the_driver_does_not_tell_is_unchecked() -> None:
    found = facts("healthy_t4")
    gpu = found["gpu"]["devices"][0]
    gpu |= {"ecc_uncorrected": None, "power_limit_watts": None}
    errors = named(found, "machine/faulty-gpu", "memory errors")
    assert (errors.state, errors.says) == (
        CheckState.UNCHECKED, "ECC is on, but its count of memory errors is unknown",
    )  # fmt: skip
    limit = named(found, "machine/throttled-clock", "power limit")
    assert (limit.state, limit.says) == (CheckState.UNCHECKED, "its power limit is unknown")
    gpu |= {"power_limit_watts": 75.0}
    limit = named(found, "machine/throttled-clock", "power limit")
    assert (limit.state, limit.says) == (CheckState.FINE, "75 W, above its default of 70 W")
    found["numa_nodes"] = []
    assert named(found, "machine/limited-host", "NUMA").state is CheckState.UNCHECKED


def test_facts_that_tell_nothing_of_the_system_say_so() -> None:
    found = changed("windows_native", "platform", to={})
    assert ("system", "unknown") in build_sheet(found).about


def test_the_heat_of_a_card_at_rest_is_told_as_that() -> None:
    found = changed("healthy_t4", "load", to={"unmeasured": "--no-load was given", "devices": []})
    says = named(found, "machine/throttled-clock", "clock").says
    assert says == "not read under load (--no-load was given); 38 °C now, slows down at 93 °C"


def test_no_source_is_cited_nowhere_and_own_choices_say_that_they_are() -> None:
    package = Path(facts_document.__file__).parents[1]
    tables = ("rules.py", "choices.py")
    texts = [file.read_text(encoding="utf-8") for file in package.rglob("*.py") if file.name not in tables]
    idle = {key for key in SOURCES if not any(f'"{key}"' in text for text in texts)}
    assert idle == set()
    found = changed("container_without_gpu", "environment", to={"OMP_NUM_THREADS": "999"})
    for name in ("memory", "quota", "threads"):
        assert "own-choice" in named(found, "machine/limited-host", name).sources
    assert "own-choice" in named(facts("worn_v100"), "machine/busy-gpu", "processes").sources
    assert "5% of a card's memory" in SOURCES["own-choice"].says


def test_of_macos_nothing_is_known_but_what_tensorflow_says() -> None:
    found = changed("cpu_only_vm", "platform", "system", to="Darwin")
    found["devices"] = {"pci_gpus": None, "files": []}
    check = named(found, "machine/gpu-unseen", "tensorflow")
    assert (check.state, check.sources) == (CheckState.UNCHECKED, ("tensorflow-macos",))


def test_libraries_that_were_tried_are_one_line() -> None:
    found = facts("healthy_t4")
    assert named(found, "machine/gpu-unseen", "libraries").says == "8 of 8 libraries load by name"
    found["libraries"][7] |= {"loaded": None, "found": ["/a/libcudnn.so.9", "/b/libcudnn.so.9"]}
    check = named(found, "machine/gpu-unseen", "libraries")
    assert check.state is CheckState.NOTED
    assert check.says == ("7 of 8 libraries load by name, not libcudnn.so.9; several files match libcudnn.so.9")


def test_in_a_container_one_process_on_the_card_may_be_the_run_itself() -> None:
    machine = changed("worn_v100", "devices", "own_pid_namespace", to=True)
    busy = [c for c in machine_causes() if c.id == "machine/busy-gpu"]
    run = Trace(signals=frozenset({Signal.FACTS}), facts={"machine": machine})
    assert [d.cause for d in diagnose.diagnose_trace(run, busy).diagnoses] == ["machine/busy-gpu"]
    machine["gpu"]["devices"][0]["compute_processes"].pop()
    run = Trace(signals=frozenset({Signal.FACTS}), facts={"machine": machine})
    assert [u.missing for u in diagnose.diagnose_trace(run, busy).unchecked] == [("card",)]
    assert [d.cause for d in diagnose.diagnose_trace(trace_of_facts(machine), busy).diagnoses] == ["machine/busy-gpu"]


def test_whether_a_card_was_grabbed_is_read_off_a_run() -> None:
    """As a recording has it: no trace ever measures the card by itself, the facts hold what the driver says of it."""
    grabbed = [c for c in all_causes() if c.id == "memory/grabbed-device"]
    measured = frozenset({Signal.FACTS, Signal.DEVICE_MEMORY})
    machine = facts("h100_vm")
    found = diagnose.diagnose_trace(Trace(signals=measured, facts={"machine": machine}), grabbed)
    assert (found.healthy, found.unchecked) == (("memory/grabbed-device",), ())
    machine["gpu"]["devices"][0]["compute_processes"] = None
    found = diagnose.diagnose_trace(Trace(signals=measured, facts={"machine": machine}), grabbed)
    assert [u.missing for u in found.unchecked] == [("card",)]
    found = diagnose.diagnose_trace(Trace(signals=measured, facts={"machine": facts("cpu_only_vm")}), grabbed)
    assert found.unchecked == ()


def test_a_hot_card_in_a_run_is_priced_by_its_clock() -> None:
    fires = next(c for c in machine_causes() if c.id == "machine/throttled-clock")
    found = diagnose.diagnose_trace(parse_drawing(fires.fires[0]), [fires])
    # 600 of 1590 MHz through the whole step: at its full clock arithmetic takes 0.377 of it.
    assert found.diagnoses[0].saving.after_ms == pytest.approx(10 * 600 / 1590)


def test_a_card_at_rest_is_no_throttled_one() -> None:
    trace = trace_of_facts(changed("healthy_t4", "load", to={"unmeasured": "no load", "devices": []}))
    found = diagnose.diagnose_trace(trace, [c for c in machine_causes() if c.id == "machine/throttled-clock"])
    assert found.diagnoses == ()


STRANGE: strategies.SearchStrategy[Any] = strategies.sampled_from(
    [None, "", "x", -1, 0, 1e308, True, [], {}, [None], [[]], {"a": 1}, "0.0.0"]
)


def damaged(data: strategies.DataObject) -> dict[str, Any]:
    """A fixture with one to four facts of another kind than they should be."""
    found: dict[str, Any]
    found = json.loads(data.draw(strategies.sampled_from(FILES)).read_text())
    for _ in range(data.draw(strategies.integers(1, 4))):
        place: Any = found
        while isinstance(place, (dict, list)) and place:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = data.draw(strategies.sampled_from(list(keys)))
            if data.draw(strategies.booleans()) or not isinstance(place[key], (dict, list)) or not place[key]:
                place[key] = copy.deepcopy(data.draw(STRANGE))  # or the next one is put into it, and into itself
                break
            place = place[key]
    return found


@given(strategies.data())
def test_damaged_facts_never_end_in_a_traceback(data: strategies.DataObject) -> None:
    found = damaged(data)
    try:
        answer = build_sheet(found)
        doctor.doctor_text(answer)
        pages.doctor_page(answer)
    except DAMAGE_ERRORS:
        return


CARDS: tuple[dict[str, Any], ...] = (
    {"gpu_device_name": "Tesla T4", "compute_cap_major": 7, "compute_cap_minor": 5, "memory_size": 15.7e9},
    {"compute_cap_major": 7, "compute_cap_minor": 0, "memory_size": 34.3e9},
    {"device_vendor": "AMD"},
)


@given(strategies.data())
def test_damaged_facts_beside_a_profile_show_when_they_are_joined(data: strategies.DataObject) -> None:
    """No later: what a cause raises in the midst of a diagnosis would end in a traceback."""
    link = next(c for c in machine_causes() if c.id == "transfer/slow-link")
    trace, card = parse_drawing(link.fires[0]), data.draw(strategies.sampled_from(CARDS))
    trace = replace(trace, facts={"profile": True, "devices": [{"kind": "GPU"}], "hardware": [{"kind": "GPU", **card}]})
    try:
        joined = join_facts(trace, damaged(data), "facts.json")
    except DAMAGE_ERRORS:
        return
    found = diagnose.diagnose_trace(joined, machine_causes())
    assert found.diagnoses or found.healthy or found.unchecked
