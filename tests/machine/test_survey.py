"""Gathering facts: system, libraries, disk, kernel log, load, frameworks; and reading somebody else's."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slowtrain.doctor import facts_document
from slowtrain.errors import InputError
from slowtrain.machine.host import data_folder
from slowtrain.machine.host.cuda_libraries import describe_loaded_files, find_libraries
from slowtrain.machine.host.environment_variables import keras_backend
from slowtrain.machine.host.gpu_devices import Gpus, read_gpu_devices

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads what only Linux has")
OPEN_DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build\n"
CLOSED_DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Tue Mar 5\nGCC version: 12.2.0\n"


class Nvml:
    """One card whose link comes up at work."""

    def __init__(self, **more: Any) -> None:
        self.more, self.asked = more, 0

    def __getattr__(self, name: str) -> Any:
        if name in self.more:
            return lambda *_: self.more[name]
        raise AttributeError(name)

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: int) -> int:  # noqa: N802
        self.asked += 1
        return 1 if self.asked == 1 else 4

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:  # noqa: N802
        return 1980 if self.asked < 2 else 1500

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:  # noqa: N802
        return 0x4 if self.asked == 1 else 0x20


def _tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(("said", "version"), [(OPEN_DRIVER, "570.86.10"), (CLOSED_DRIVER, "535.161.08")])
def test_a_gpu_without_a_framework_to_see_it(tmp_path: Path, said: str, version: str) -> None:
    pci = "sys/bus/pci/devices"
    root = _tree(
        tmp_path,
        {
            "proc/driver/nvidia/version": said,
            "proc/sys/kernel/osrelease": "6.1.0-13-amd64\n",
            "dev/nvidia0": "",
            "dev/nvidiactl": "",
            f"{pci}/0000:3b:00.0/vendor": "0x10de\n",
            f"{pci}/0000:3b:00.0/class": "0x030200\n",
            f"{pci}/0000:3b:00.0/device": "0x1eb8\n",
            f"{pci}/0000:3b:00.0/numa_node": "1\n",
            f"{pci}/0000:3b:00.1/vendor": "0x10de\n",
            f"{pci}/0000:3b:00.1/class": "0x040300\n",  # its sound
            f"{pci}/0000:00:02.0/vendor": "0x8086\n",
            f"{pci}/0000:00:02.0/class": "0x030000\n",
        },
    )
    found = read_gpu_devices(root)
    assert found["kernel_driver"] == version
    assert found["wsl"] is False
    row = {"address": "0000:3b:00.0", "vendor": "0x10de", "device": "0x1eb8", "numa_node": 1}
    assert found["pci_gpus"] == [row]
    assert [(g["address"], g["vendor"]) for g in found["other_gpus"]] == [("0000:00:02.0", "0x8086")]
    assert [f["path"] for f in found["files"]] == ["/dev/nvidia0", "/dev/nvidiactl"]


def test_what_the_system_does_not_show_is_none(tmp_path: Path) -> None:
    found = read_gpu_devices(tmp_path)
    assert (found["kernel_driver"], found["pci_gpus"], found["files"], found["wsl"]) == (None, None, None, None)
    assert (found["other_gpus"], found["wsl_driver"]) == (None, None)


@LINUX
def test_what_opens_and_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's rules for devices refuse what the permissions of the file allow; no card is woken for it."""
    import grp  # Windows has none

    root = _tree(tmp_path, {"dev/nvidia0": "", "dev/nvidiactl": ""})
    (root / "dev/nvidia0").chmod(0o660)
    opened: list[str] = []

    def refuse(path: Path, *_: int) -> int:
        opened.append(Path(path).name)
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("slowtrain.machine.host.gpu_devices.os.open", refuse)
    files = {f["path"]: f for f in read_gpu_devices(root)["files"]}
    assert opened == ["nvidiactl"]
    assert (files["/dev/nvidiactl"]["usable"], files["/dev/nvidiactl"]["refused"]) == (False, "EPERM")
    assert files["/dev/nvidia0"]["group"] == grp.getgrgid(os.getgid()).gr_name
    assert files["/dev/nvidiactl"]["group"] is None


def test_wsl_is_known_by_its_kernel(tmp_path: Path) -> None:
    root = _tree(tmp_path, {"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n", "dev/dxg": ""})
    found = read_gpu_devices(root)
    assert (found["wsl"], found["wsl_driver"]) == (True, False)
    assert [f["path"] for f in found["files"]] == ["/dev/dxg"]
    assert read_gpu_devices(_tree(root, {"usr/lib/wsl/lib/libcuda.so.1": ""}))["wsl_driver"] is True


@LINUX
def test_libraries_are_tried_as_the_loader_would(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "site/nvidia/cudnn/lib"
    (tmp_path / "site/nvidia_cudnn_cu12-9.3.0.75.dist-info").mkdir(parents=True)
    for place in (one, two):
        place.mkdir(parents=True, exist_ok=True)
        (place / "libcudnn.so.9").write_text("no library")
    environ = {**os.environ, "LD_LIBRARY_PATH": str(one)}
    names = ["libcudnn.so.9", "libslowtrain-none.so.1", "libc.so.6"]
    rows = find_libraries(names, environ, packages=[str(tmp_path / "site")])
    assert rows is not None
    broken, absent, there = rows
    assert broken["found"] == [str(one / "libcudnn.so.9"), str(two / "libcudnn.so.9")]
    assert broken["loaded"] is None
    assert "invalid ELF header" in broken["error"] or "file too short" in broken["error"]
    assert (absent["loaded"], absent["found"]) == (None, [])
    assert "cannot open shared object file" in absent["error"]
    assert there["loaded"].endswith("libc.so.6")


def test_versions_of_what_a_process_has_loaded(tmp_path: Path) -> None:
    """The wheel of cuDNN's frontend lies beside it and has another count of its own."""
    file = tmp_path / "nvidia/cudnn/lib/libcudnn.so.9"
    for name in ("nvidia_cudnn_cu13-9.19.0.56", "nvidia_cudnn_frontend-1.15.0"):
        (tmp_path / f"{name}.dist-info").mkdir()
    rows = describe_loaded_files([str(file), "/usr/lib/libcudnn.so.9.14.0", "/usr/lib/libcudart.so.13"])
    assert [row["version"] for row in rows] == ["9.19.0.56", "9.14.0", None]
    (tmp_path / "nvidia_cudnn_cu12-9.10.2.21.dist-info").mkdir()
    assert describe_loaded_files([str(file)])[0]["version"] is None  # both wheels write that file


@LINUX
def test_a_folder_is_read_past_the_cache_within_its_budget(tmp_path: Path) -> None:
    for i in range(30):
        (tmp_path / f"{i}.bin").write_bytes(os.urandom(5000))
    (tmp_path / "empty").touch()
    found = data_folder.measure_folder(tmp_path)
    assert found["files_seen"] == found["read_files"] == 31
    assert found["all_files_seen"] is True
    assert found["read_bytes"] == 30 * 5000
    assert found["bytes_per_second"] == pytest.approx(found["read_bytes"] / found["seconds"], rel=0.01)


def test_reading_stops_at_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_folder, "MAX_READ_BYTES", 3 << 20)
    for i in range(4):
        (tmp_path / f"{i}.bin").write_bytes(bytes(2 << 20))
    found = data_folder.measure_folder(tmp_path)
    assert 3 << 20 <= found["read_bytes"] <= 5 << 20


def test_an_empty_folder_gives_no_rate(tmp_path: Path) -> None:
    found = data_folder.measure_folder(tmp_path)
    assert (found["read_bytes"], found["bytes_per_second"], found["from_storage_share"]) == (0, None, None)


@pytest.mark.parametrize(
    ("filesystem", "rotational", "kind"),
    [("ext4", "1\n", "rotational"), ("xfs", "0\n", "solid-state"), ("xfs", None, None), ("nfs4", None, "network"),
     ("tmpfs", None, "memory"), ("9p", None, "windows"), ("overlay", None, "overlay"), (None, None, None)],
)  # fmt: skip
def test_kinds_of_disks(tmp_path: Path, filesystem: str | None, rotational: str | None, kind: str | None) -> None:
    if rotational is not None:
        _tree(tmp_path, {"sys/dev/block/8:0/queue/rotational": rotational, "sys/dev/block/8:0/8:1/start": "1"})
    assert data_folder.storage_kind(filesystem, "8:0", tmp_path) == kind


def test_mounts_are_told_apart_by_their_longest_name(tmp_path: Path) -> None:
    lines = [
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw",
        "30 22 0:40 / /mnt/my\\040data rw - nfs4 store:/x rw",
        "31 22 0:41 / /mnt/my rw - tmpfs none rw",
    ]
    root = _tree(tmp_path, {"proc/self/mountinfo": "\n".join(lines)})
    assert data_folder.mounted_filesystem("/mnt/my data/train", root) == ("nfs4", "0:40")
    assert data_folder.mounted_filesystem("/mnt/mine", root) == ("ext4", "8:1")


def test_faults_in_the_kernels_log() -> None:
    said = (
        "[1.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
        "[2.0] NVRM: Xid (PCI:0000:3b:00): 79, again\n[3.0] usb 1-1: new device\n"
        "[4.0] NVRM: Xid (PCI:0000:af:00): 31, pid=77, name=python\n"
    )
    found = facts_document.read_xids(said)
    assert found["xids"] == [
        {"address": "0000:3b:00", "code": 79, "count": 2},
        {"address": "0000:af:00", "code": 31, "count": 1},
    ]
    assert facts_document.read_xids("")["xids"] == []


def test_an_empty_kernel_log_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "slowtrain.doctor.facts_document.subprocess.run", lambda *_, **__: SimpleNamespace(returncode=0, stdout=b"\n")
    )
    assert facts_document.read_xids() == {"xids": None, "unmeasured": "dmesg shows nothing here"}


def test_the_journal_is_asked_where_dmesg_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    said = b"Nov 25 10:00:00 host kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n"

    def run(command: tuple[str, ...], **_: Any) -> SimpleNamespace:
        return SimpleNamespace(returncode=command[0] == "dmesg", stdout=said if command[0] == "journalctl" else b"")

    monkeypatch.setattr("slowtrain.doctor.facts_document.subprocess.run", run)
    assert facts_document.read_xids()["xids"] == [{"address": "0000:3b:00", "code": 79, "count": 1}]
    said = b""
    assert facts_document.read_xids()["unmeasured"] == "dmesg needs root here: try sudo dmesg | grep -i xid"


def test_a_card_is_read_while_it_works() -> None:
    """The child is a stand-in: it says that it copies, and for how long."""
    code = (
        "import time\n"
        f'print({facts_document.PROGRESS_PREFIX!r} + \'{{"device": 0, "begun": true}}\', flush=True)\ntime.sleep(0.5)\n'
        f'print({facts_document.PROGRESS_PREFIX!r} + \'{{"device": 0, "begun": false, "bytes_per_second": 6e9,\''
        " + '\"computed_seconds\": 0.25}', flush=True)\n"
    )
    found = facts_document.sample_under_load(Gpus(Nvml()), None, [sys.executable, "-c", code])
    assert found["unmeasured"] is None
    (row,) = found["devices"]
    assert row["pcie_generation"] == 4  # its best at work, not what it was at rest
    assert row["throttle_bits"] == 0x24  # any reason that was given
    assert (row["bytes_per_second"], row["computed_seconds"]) == (6e9, 0.25)
    assert row["sm_mhz"] == 1500  # the middle: the first reading was before the power limit held it down


def test_a_load_that_cannot_run_says_why() -> None:
    assert (
        facts_document.sample_under_load(Gpus(SimpleNamespace()), "tensorflow")["unmeasured"]
        == "the driver shows no GPU"
    )
    assert "no installed framework" in facts_document.sample_under_load(Gpus(Nvml()), None)["unmeasured"]
    assert (
        "could not copy"
        in facts_document.sample_under_load(Gpus(Nvml()), "it", [sys.executable, "-c", "raise SystemExit(3)"])[
            "unmeasured"
        ]
    )


def test_health_of_a_card() -> None:
    nvml = Nvml(
        nvmlDeviceGetEccMode=[1, 1],
        nvmlDeviceGetTotalEccErrors=2,
        nvmlDeviceGetRemappedRows=(1, 2, 1, 0),
        nvmlDeviceGetRetiredPages=[7],
        nvmlDeviceGetRetiredPagesPendingStatus=0,
        nvmlDeviceGetPciInfo=SimpleNamespace(busId=b"00000000:3B:00.0"),
        nvmlDeviceGetDisplayActive=0,
    )
    (device,) = Gpus(nvml).facts()["devices"]
    assert (device["ecc_mode"], device["ecc_uncorrected"]) == (True, 2)
    assert (device["remapped_rows"], device["remapping_pending"], device["remapping_failed"]) == (3, True, False)
    assert (device["retired_pages"], device["retired_pages_pending"]) == (2, False)
    assert device["pci_address"] == "00000000:3B:00.0"
    assert device["display_active"] is False


def test_a_framework_that_dies_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts_document, "BUILD_MODULE", "slowtrain.no_such_module")
    found = facts_document.ask_framework("tensorflow")
    assert found["error"].startswith("ended with exit code 1")


def test_of_a_log_the_lines_about_gpus_are_kept() -> None:
    lines = [
        "2025-07-23 00:34:47.1: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.",
        "E0000 1 cuda_dnn.cc:8579] Unable to register cuDNN factory: already registered",
        "W0000 1 gpu_device.cc:2341] Cannot dlopen some GPU libraries. Please make sure …",
        "W0000 2 gpu_device.cc:2341] Cannot dlopen some GPU libraries. Please make sure …",
        "hello",
    ]
    assert facts_document.gpu_log_lines(lines) == ["Cannot dlopen some GPU libraries. Please make sure …"]


def test_what_keras_runs_on(tmp_path: Path) -> None:
    assert keras_backend({"KERAS_BACKEND": "jax"}) == "jax"
    assert keras_backend({"KERAS_HOME": str(tmp_path)}) == "tensorflow"
    (tmp_path / "keras.json").write_text('{"backend": "torch"}')
    assert keras_backend({"KERAS_HOME": str(tmp_path)}) == "torch"
    (tmp_path / "keras.json").write_text("{")
    assert keras_backend({"KERAS_HOME": str(tmp_path)}) == "tensorflow"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[]", "has no schema"),
        ('{"schema": "slowtrain.machine/2"}', "has the schema 'slowtrain.machine/2'"),
        ('{"schema": "slowtrain.checkup/1"}', "has the schema 'slowtrain.checkup/1'"),
        ('{"schema": "slowtrain.machine/1", "cpu": 3}', "has no 'platform'"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_file_of_no_facts_gets_one_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "facts.json"
    file.write_text(text)
    with pytest.raises(InputError, match="slowtrain doctor --json") as caught:
        facts_document.read_facts_file(file)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_without_an_end_is_too_large(tmp_path: Path) -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("needs /dev/zero")
    (tmp_path / "facts.json").symlink_to("/dev/zero")  # whose size is said to be 0
    with pytest.raises(InputError, match="too large"):
        facts_document.read_facts_file(tmp_path / "facts.json")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_facts_as_other_systems_write_them(encoding: str, tmp_path: Path) -> None:
    """On Windows `slowtrain doctor --json > facts.json` is UTF-16."""
    text = (Path(__file__).parent / "fixtures/healthy_t4.json").read_text(encoding="utf-8")
    (tmp_path / "facts.json").write_bytes(text.encode(encoding))
    assert facts_document.read_facts_file(tmp_path / "facts.json")["schema"] == "slowtrain.machine/1"


def test_facts_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        facts_document.read_facts_file(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be read"):
        facts_document.read_facts_file(tmp_path)


def test_libraries_beside_those_that_a_gpu_is_seen_by_are_tried_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts_document, "installed_frameworks", lambda: ("torch",))
    build = {"cuda_build": True, "cuda_version": "12.8", "cudnn_version": "9.10.2"}
    monkeypatch.setattr(facts_document, "ask_framework", lambda _: build)
    tried: list[str] = []
    monkeypatch.setattr("slowtrain.machine.host.cuda_libraries.find_libraries", lambda names, _: tried.extend(names))
    facts_document.gather_facts(load=False, gpus=Gpus(SimpleNamespace()))
    assert tried[0] == "libcuda.so.1"
    assert tried[-3:] == ["libcupti.so.12", "libnvJitLink.so.12", "libnccl.so.2"]


def test_gathering_here_gives_a_document_that_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts_document, "installed_frameworks", lambda: ())
    found = facts_document.gather_facts(data=tmp_path, gpus=Gpus(SimpleNamespace()))
    file = tmp_path / "facts.json"
    file.write_text(json.dumps(found, allow_nan=False))
    assert facts_document.read_facts_file(file) == json.loads(json.dumps(found))
    assert found["data"]["folder"] == str(tmp_path)
    file.write_text(json.dumps({"schema": "slowtrain.doctor/1", "facts": found}))
    assert facts_document.read_facts_file(file)["schema"] == "slowtrain.machine/1"
