"""``slowtrain doctor`` as a command: exit codes, files, misuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slowtrain.cli import main
from slowtrain.doctor import facts_document

FIXTURES = Path(__file__).parents[1] / "machine/fixtures"


@pytest.fixture(autouse=True)
def _no_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing TensorFlow takes seconds, and a card may be there where the tests run: neither is asked here."""
    monkeypatch.setattr(facts_document, "installed_frameworks", lambda: ())
    monkeypatch.setattr(facts_document, "sample_under_load", lambda *_: {"unmeasured": "a test", "devices": []})


def test_somebody_elses_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--from", str(FIXTURES / "healthy_t4.json")]) == 0
    assert capsys.readouterr().out.startswith("no problem found\n")
    assert main(["doctor", "--from", str(FIXTURES / "cpu_wheel.json")]) == 1
    said = capsys.readouterr().out
    assert said.startswith("1 problem: TensorFlow 2.21.0 sees no GPU")
    assert "tensorflow[and-cuda]==2.21.0" in said


def test_this_machine_from_facts_to_page_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/1.bin").write_bytes(bytes(4096))
    page = tmp_path / "doctor.html"
    code = main(["doctor", "--json", "--html", str(page), "--data", str(tmp_path / "data")])
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert said.err == ""
    assert found["schema"] == "slowtrain.doctor/1"
    assert found["facts"]["schema"] == "slowtrain.machine/1"
    assert found["facts"]["data"]["read_files"] == 1
    assert code == int(any(c["state"] == "wrong" for c in found["checks"]))
    assert page.read_text().startswith("<!DOCTYPE html>")
    (tmp_path / "facts.json").write_text(said.out)
    assert main(["doctor", "--json", "--from", str(tmp_path / "facts.json")]) == code
    assert json.loads(capsys.readouterr().out)["checks"] == found["checks"]


def test_json_into_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As with every other verb: the text is printed all the same, and - is standard output."""
    given = ["doctor", "--from", str(FIXTURES / "healthy_t4.json"), "--json"]
    assert main([*given, str(tmp_path / "facts.json")]) == 0
    assert capsys.readouterr().out.startswith("no problem found\n")
    assert main([*given, "-"]) == 0
    assert json.loads((tmp_path / "facts.json").read_text()) == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--from", "no-such.json"], "cannot be read"),
        (["--data", "no-such-folder"], "is not a folder"),
        (["--from", str(FIXTURES / "healthy_t4.json"), "--data", "."], "cannot be combined with --from"),
        (["--from", __file__], "is not JSON"),
    ],
)
def test_misuse_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert says in said.err
    assert said.err.count("\n") == 1


def test_facts_of_another_version_and_damaged_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "facts.json"
    facts = json.loads((FIXTURES / "healthy_t4.json").read_text())
    file.write_text(json.dumps({**facts, "schema": "slowtrain.machine/7"}))
    assert main(["doctor", "--from", str(file)]) == 2
    assert "has the schema 'slowtrain.machine/7', not 'slowtrain.machine/1'" in capsys.readouterr().err
    facts["cgroup"]["cpu_quota_cores"] = float("nan")  # which Python writes, and is none of JSON's numbers
    file.write_text(json.dumps(facts))
    assert main(["doctor", "--from", str(file)]) == 2
    assert "is not JSON" in capsys.readouterr().err
    facts["cgroup"]["cpu_quota_cores"] = 10**400
    facts["cpu"]["affinity_cores"] = [[0], [1]]
    facts["numa_nodes"] = [[0], [1]]
    file.write_text(json.dumps(facts))
    assert main(["doctor", "--from", str(file)]) == 2
    said = capsys.readouterr().err
    assert "is damaged" in said
    assert said.count("\n") == 1
