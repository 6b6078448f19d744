"""The page: complete, self-contained, and closed to whatever a name tries."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import jinja2
import pytest

from slowtrain.report import pages
from slowtrain.report.pages import markdown_html

from . import checkups

VOID = {"meta", "br", "hr"}


class Page(HTMLParser):
    """Counts elements, collects text and attributes, and checks that tags close in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, k, v or "") for k, v in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def page(name: str) -> Page:
    return Page(pages.checkup_page(checkups.ALL[name](), checkups.PAGES))


@pytest.mark.parametrize("name", checkups.ALL)
def test_is_well_formed_and_fetches_nothing(name: str) -> None:
    parsed = page(name)
    assert not {"link", "img", "iframe", "object", "embed", "base", "form", "image", "foreignobject"} & set(parsed.tags)
    for tag, attribute, value in parsed.attributes:
        assert attribute not in ("src", "srcset", "action", "data", "style", "ping"), tag
        assert not attribute.startswith("on"), tag
        if attribute in ("href", "xlink:href"):
            assert value.startswith("#")
        assert "url(" not in value or value == "url(#hatch)"
    for asset in ("page.css", "page.js"):
        source = files("slowtrain.report").joinpath("templates", asset).read_text(encoding="utf-8")
        assert not re.search(r"https?:|@import|url\(|fetch\(|XMLHttp|innerHTML", source)


@pytest.mark.parametrize("name", checkups.ALL)
def test_policy_forbids_the_network(name: str) -> None:
    policy = next(v for t, k, v in page(name).attributes if t == "meta" and k == "content" and "default-src" in v)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


def test_hostile_names_make_no_elements() -> None:
    parsed = page("hostile")
    # The data, and our own script: nothing that a name brought.
    assert parsed.tags.count("script") == 2
    assert parsed.tags.count("style") == 1
    said = "".join(parsed.text)
    assert "<script>alert(1)</script>" in said
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", said)


@pytest.mark.parametrize("name", ["input_bound", "hostile"])
def test_carries_the_json_of_the_contract(name: str) -> None:
    from slowtrain.report import documents

    source = pages.checkup_page(checkups.ALL[name](), {})
    data = re.search(r'<script type="application/json" id="checkup">(.*?)</script>', source, re.DOTALL)
    assert data
    assert json.loads(data[1]) == documents.checkup_document(checkups.ALL[name]())


def test_says_everything_that_was_found() -> None:
    said = " ".join(page("input_bound").text)
    for text in (
        "input-bound",
        "Each step waits 8.1",
        "The input map runs on one core",
        "train.py:41",
        "1.7x to 2.1x of a step",
        "num_parallel_calls=tf.data.AUTOTUNE",
        "When it is not worth it",
        "shuffle(10000)",
        "bottleneck",
        "Process memory",
        "machine/slow-link",
        "a device timeline",
        "was left out",
        "NVIDIA T4",
        "5,203 samples/s",
        "host/retracing",
        "0.4% of the run",
        "1.18 times as long",
    ):
        assert text in said, text


def test_missing_pictures_read_as_not_measured() -> None:
    said = " ".join(page("insufficient").text)
    assert said.count("not measured") >= 7
    assert "Checked and not found" in said
    assert "Run at least 50 steps" in said


def test_a_series_without_values_reads_as_not_measured() -> None:
    assert re.search(r"GPU utilisation not measured", " ".join(page("input_bound").text))


def test_every_chart_has_a_name_for_those_who_do_not_see_it() -> None:
    parsed = page("input_bound")
    images = [v for t, k, v in parsed.attributes if t == "svg" and k == "role"]
    labels = [v for t, k, v in parsed.attributes if t == "svg" and k == "aria-label"]
    assert len(images) == len(labels) >= 10
    assert all(labels)


def test_markdown_escapes_first() -> None:
    done = markdown_html(
        "## a <b>\nsee `x < y` and **z & `w`**\n- one\n  more\n- two\n\n```python\n<i>\n\n```\n[t](https://x)\n"
    )
    assert done == (
        "<h4>a &lt;b&gt;</h4>\n<p>see <code>x &lt; y</code> and <strong>z &amp; <code>w</code></strong></p>\n"
        '<ul>\n<li>one\nmore</li>\n<li>two</li>\n</ul>\n<pre tabindex="0"><code class="language-python">&lt;i&gt;\n\n'
        "</code></pre>\n<p>[t](https://x)</p>\n"
    )


@pytest.mark.parametrize("source", ["", "- ", "## ", "```", "`", "- a\n```\nb", "* **\n1. `", "<b>\n\n[x]: data:1"])
def test_markdown_is_well_formed_whatever_the_page(source: str) -> None:
    assert not {"b", "a"} & set(Page(markdown_html(source)).tags)


def test_a_template_that_names_what_is_not_there_fails() -> None:
    with pytest.raises(jinja2.UndefinedError, match="verdict"):
        pages._template_environment().get_template("checkup.html").render(checkup=object())


def luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_stand_out_in_light_and_dark() -> None:
    css = files("slowtrain.report").joinpath("templates/page.css").read_text(encoding="utf-8")
    themes = css.split("@media print")[0].split("@media (prefers-color-scheme: dark)")
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w+);", theme)) for theme in themes)
    dark = {k: dark.get(k, v) for k, v in light.items()}
    for theme in (light, dark):
        card = theme["card"]
        for name in ("text", "soft", "accent", "warm", "good", "bad"):
            assert contrast(theme[name], card) >= 4.5, name
        for name in ("warm", "good", "bad"):
            assert contrast(theme[name], theme[f"{name}-soft"]) >= 4.5, name
        for part in re.findall(r"\.c-[^{]*\{ fill: (#\w{6}); \}", css):
            assert contrast(part, "#0d0f12") >= 4.5, part
            assert contrast(part, card) >= 3, part


@pytest.mark.parametrize("writable", [True, False])
def test_compiled_templates_are_kept_where_python_keeps_modules(writable: bool, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    if not writable:
        kept.write_text("no folder")
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(kept)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    code = "from slowtrain.report import pages; pages._template_environment().get_template('doctor.html')"
    for _ in range(2):  # the second process reads what the first one wrote
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert any(kept.rglob("*.cache")) is writable
