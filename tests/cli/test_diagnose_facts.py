"""``slowtrain diagnose --facts``: the machine's part in a profile's steps, by what ``slowtrain doctor`` wrote there."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from slowtrain.cli import main
from slowtrain.doctor.machine_sheet import worst_first

TESTS = Path(__file__).parents[1]
FIXTURES = TESTS / "machine/fixtures"
RECORDED = TESTS / "trace/recorded"
H100 = RECORDED / "gpu-one-copy.xplane.pb.gz"  # JAX on the card of h100_vm.json's kind
ON_CPU = RECORDED / "tf-input-arrays.xplane.pb.gz"
V100 = TESTS.parent.parent / "shared/traces/tf-v100-bert/worker-0.xplane.pb"
MI300X = TESTS.parent.parent / "shared/traces/jax-mi300x/conv.xplane.pb"
with_traces = pytest.mark.skipif(not V100.exists(), reason="../shared/traces is absent")

Answer = Callable[..., dict[str, Any]]


@pytest.fixture
def answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Answer:
    """The answer as JSON, with the text and the page."""

    def ask(profile: Path, facts: Path | dict[str, Any] | None = None) -> dict[str, Any]:
        given = []
        if facts is not None:
            file = tmp_path / "facts.json"
            file.write_text(facts.read_text() if isinstance(facts, Path) else json.dumps(facts))
            given = ["--facts", str(file)]
        page, told = tmp_path / "page.html", tmp_path / "answer.json"
        assert main(["diagnose", *given, "--html", str(page), "--json", str(told), str(profile)]) == 0
        said = capsys.readouterr()
        found: dict[str, Any] = json.loads(told.read_text())
        assert said.err == ""
        found |= {"text": " ".join(said.out.split()), "page": page.read_text()}
        # By what the computer was judged is in each form.
        assert found["subject"]["computer"][:30] in found["text"]
        assert escape(found["subject"]["computer"]) in found["page"]
        return found

    return ask


def facts(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text())
    return found


def many(found: dict[str, Any], count: int) -> dict[str, Any]:
    """The same computer with so many cards of its kind."""
    card = found["gpu"]["devices"][0]
    found["gpu"]["devices"] = [{**copy.deepcopy(card), "index": i} for i in range(count)]
    if found.get("load"):
        at_work = found["load"]["devices"][0]
        found["load"]["devices"] = [{**at_work, "index": i} for i in range(count)]
    return found


def diagnosed(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {d["cause"]: d for d in found["diagnoses"] if d["cause"] in worst_first()}


def unchecked(found: dict[str, Any]) -> dict[str, list[str]]:
    return {u["cause"]: u["missing"] for u in found["unchecked"] if u["cause"] in worst_first()}


def test_without_facts_the_computer_is_unchecked_and_the_report_says_how_to_get_them(answer: Answer) -> None:
    found = answer(H100)
    assert set(unchecked(found)) == set(worst_first())
    for told in (found["subject"]["computer"], found["text"], found["page"]):
        assert "slowtrain doctor --json FILE" in told
        assert "--facts FILE" in told


def test_a_sound_computer_is_fine_but_for_what_only_those_steps_could_tell(answer: Answer) -> None:
    found = answer(H100, FIXTURES / "h100_vm.json")
    assert diagnosed(found) == {}
    # Its compiler knows cards that JAX does not tell; who else computed, and at which clock, another moment does not.
    assert unchecked(found) == {
        "machine/busy-gpu": ["card"],
        "machine/throttled-clock": ["load"],
        "startup/jit-from-ptx": ["build"],
    }
    assert set(worst_first()) - set(unchecked(found)) <= set(found["healthy"])
    assert found["subject"]["computer"].startswith("judged from ")


def test_what_is_wrong_with_the_computer_stands_in_the_same_report(answer: Answer) -> None:
    given = facts("h100_vm")
    given["environment"]["CUDA_LAUNCH_BLOCKING"] = "1"
    card = given["gpu"]["devices"][0]
    card["power_limit_watts"] = 350.0
    card["compute_processes"] = [{"pid": 4711, "memory_used_bytes": 20 << 30}]
    found = answer(H100, given)
    assert set(diagnosed(found)) == {"machine/slowing-setting", "machine/throttled-clock"}
    # One process may have been the one that the profile is of.
    assert unchecked(found)["machine/busy-gpu"] == ["card"]
    assert "CUDA_LAUNCH_BLOCKING" in found["page"]
    for one in diagnosed(found).values():
        assert one["saving"]["speedup"] == 1.0  # told, and not priced: nothing of it was timed
    card["compute_processes"].append({"pid": 4712, "memory_used_bytes": 20 << 30})
    assert "machine/busy-gpu" in diagnosed(answer(H100, given))


def test_a_slow_link_costs_what_the_profiles_copies_take(answer: Answer) -> None:
    given = facts("h100_vm")
    given["load"]["devices"][0]["pcie_width"] = 2
    slow = diagnosed(answer(RECORDED / "gpu-host-ops.xplane.pb.gz", given))["transfer/slow-link"]
    numbers = slow["evidence"]["numbers"]
    assert numbers["link_share"] == pytest.approx(2 / 16)
    assert slow["saving"]["ms"] == pytest.approx((1 - 2 / 16) * numbers["copies_ms"], rel=0.01)
    assert "copies that nothing hides take" in slow["evidence"]["says"]
    # Steps that wait for no copy are free of it, however slow the link.
    found = answer(RECORDED / "gpu-healthy.xplane.pb.gz", given)
    assert "transfer/slow-link" in found["healthy"]


def test_a_card_that_the_framework_did_not_see(answer: Answer) -> None:
    found = answer(ON_CPU, FIXTURES / "cpu_wheel.json")
    assert list(diagnosed(found)) == ["machine/gpu-unseen"]
    assert "machine/gpu-unseen" in found["text"]
    # PCIe to a card that nothing was copied to: no device has a timeline here.
    assert "device" in unchecked(found)["transfer/slow-link"]


def test_a_part_of_the_cores_is_no_fault_and_no_proof(answer: Answer) -> None:
    given = facts("cpu_only_vm")
    cores = given["cpu"]["logical_cores"]
    assert "machine/limited-host" in answer(ON_CPU, given)["healthy"]
    given["cpu"]["logical_cores"] = cores + 4
    assert unchecked(answer(ON_CPU, given))["machine/limited-host"] == ["machine"]
    given["environment"]["OMP_NUM_THREADS"] = "1"
    assert "machine/limited-host" in diagnosed(answer(ON_CPU, given))


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("healthy_t4", {}, "GPU is a NVIDIA H100 80GB HBM3, and the facts list Tesla T4"),
        ("cpu_only_vm", {}, "ran on a GPU, and the facts list none"),
        ("h100_vm", {"compute_capability": "8.0"}, "compute capability 9.0, and the facts list"),
        ("h100_vm", {"memory_total_bytes": 40 << 30}, "79.2 GiB of memory, and the facts list"),
    ],
)
def test_facts_of_another_computer_are_not_believed(
    name: str, change: dict[str, Any], why: str, answer: Answer
) -> None:
    given = facts(name)
    for device in given["gpu"]["devices"]:
        device.update(change)
    found = answer(H100, given)
    assert why in found["subject"]["computer"]
    assert "the facts describe another computer" in found["text"]
    assert set(unchecked(found)) == set(worst_first())


def test_a_framework_that_sees_no_gpu_made_no_profile_of_one(answer: Answer) -> None:
    given = facts("h100_vm")
    given["frameworks"]["jax"]["gpus"] = 0
    assert "in the facts JAX 0.11.2 sees none" in answer(H100, given)["subject"]["computer"]
    del given["frameworks"]["jax"]  # PyTorch alone was asked: of what made the profile nothing is known
    found = answer(H100, given)
    assert found["subject"]["computer"].startswith("judged from ")
    assert unchecked(found)["machine/library-mismatch"] == ["build"]
    assert "machine/gpu-unseen" in found["healthy"]


@with_traces
def test_eight_cards_of_one_computer(answer: Answer) -> None:
    one = facts("worn_v100")
    one["gpu"]["devices"][0].update(name="Tesla V100-SXM2-16GB", memory_total_bytes=16 << 30)
    assert "the profile has 8 GPUs, and the facts list 1" in answer(V100, one)["subject"]["computer"]
    found = answer(V100, many(one, 8))
    assert {"machine/faulty-gpu", "machine/throttled-clock", "machine/slowing-setting"} <= set(diagnosed(found))
    assert "Tesla V100-SXM2-16GB" in diagnosed(found)["machine/faulty-gpu"]["evidence"]["says"]
    other = many(facts("healthy_t4"), 8)
    said = "compute capability 7.0, and the facts list Tesla T4 with 7.5"
    assert said in answer(V100, other)["subject"]["computer"]


@with_traces
def test_cards_of_another_maker(answer: Answer) -> None:
    found = answer(MI300X, FIXTURES / "healthy_t4.json")
    assert "ran on an AMD GPU, and the facts list Tesla T4" in found["subject"]["computer"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": "slowtrain.machine/7"}, "has the schema 'slowtrain.machine/7', not 'slowtrain.machine/1'"),
        ({"cgroup": None}, "is damaged: it has no 'cgroup'"),
        ({"cgroup": {"cpu_quota_cores": float("nan"), "version": 2}}, "is not JSON"),
        ({"cgroup": {"cpu_quota_cores": 10**400, "version": 2}}, "is damaged (OverflowError"),
    ],
)
def test_a_file_that_is_no_facts_is_one_line(
    change: dict[str, Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "facts.json"
    file.write_text(json.dumps({**facts("h100_vm"), **change}))
    assert main(["diagnose", "--facts", str(file), str(H100)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert says in said.err
    assert said.err.count("\n") == 1
