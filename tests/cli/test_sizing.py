"""``slowtrain memory`` as a command: where its answer goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slowtrain.cli import main
from slowtrain.model.measurements import Device, MemoryAnswer, Need
from slowtrain.verify.batch_sizes import memory_need


def test_the_page_lies_beside_the_probes_or_where_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def memory(_bench: object, device: Device | None, *, growth: bool) -> MemoryAnswer:
        assert not growth
        return MemoryAnswer("train.py", "GPU_0_bfc", Need(8, 1 << 20, {}, ()), device, False, 0, None, (), None)

    monkeypatch.setattr(memory_need, "measure_memory_need", memory)
    script = tmp_path / "train.py"
    script.write_text("pass\n")
    out = ["--out", str(tmp_path / "runs"), "--device", "T4"]
    assert main(["memory", *out, str(script)]) == 1
    (page,) = tmp_path.glob("runs/memory-train-*/memory.html")
    assert capsys.readouterr().out.endswith(f"report: {page}\n")
    assert main(["memory", *out, "--html", str(tmp_path / "page.html"), "--json", "-", str(script)]) == 1
    assert json.loads(capsys.readouterr().out)["device"]["name"] == "a T4"
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
