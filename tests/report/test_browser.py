"""The page in a real browser: charts have a size, and nothing complains.

Its windows are at least 500 pixels wide, which is what "narrow" means here.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from slowtrain.report import pages

from . import checkups

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")]

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)

# Run in the page by a test-only script, which its policy is told of: sizes as the browser laid them out.
PROBE = """
const size = (n) => { const r = n.getBoundingClientRect(); return Math.round(r.width) + "x" + Math.round(r.height); };
for (const name of ["stacked", "plot", "graph", "interval"])
  document.querySelectorAll("svg." + name).forEach((n) => (n.dataset.size = size(n)));
document.querySelector("svg .hover").dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: 9}));
document.body.dataset.tip = document.getElementById("tip").textContent;
document.body.dataset.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
"""


def browse(folder: Path, source: str, *flags: str) -> subprocess.CompletedProcess[str]:
    page = folder / "page.html"
    page.write_text(source, encoding="utf-8")
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, page.as_uri()]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(folder)}
    )
    assert done.returncode == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    assert not complaints
    return done


def probed(source: str) -> str:
    """The page with the probe in it, allowed by its hash like our own script."""
    digest = base64.b64encode(hashlib.sha256(PROBE.encode()).digest()).decode()
    allowed = source.replace("script-src '", f"script-src 'sha256-{digest}' '")
    return allowed.replace("</body>", f"<script>{PROBE}</script></body>")


@pytest.mark.parametrize("width", [500, 1280])
@pytest.mark.parametrize("name", ["input_bound", "hostile", "long_names"])
def test_charts_are_drawn_and_nothing_overflows(name: str, width: int, tmp_path: Path) -> None:
    source = probed(pages.checkup_page(checkups.ALL[name](), checkups.PAGES))
    dom = browse(tmp_path, source, f"--window-size={width},2000", "--dump-dom").stdout
    for kind, least in (("stacked", 2), ("plot", 2), ("graph", 1), ("interval", 2)):
        found = re.findall(rf'<svg class="{kind}"[^>]* data-size="(\d+)x(\d+)"', dom)
        assert len(found) >= least, kind
        assert all(int(w) > 80 and int(h) > 10 for w, h in found), (kind, found)
    assert re.search(r'data-overflow="0"', dom)
    if name == "input_bound":
        assert re.search(r'data-tip="step 0 to step \d+: [\d.]+ ms to 2.65 s"', dom)
    assert "alert(1)" not in "".join(re.findall(r"<script(?![^>]*json)[^>]*>.*?</script>", dom, re.DOTALL))


def test_screenshot_is_no_blank_page(tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    browse(
        tmp_path,
        pages.checkup_page(checkups.input_bound(), checkups.PAGES),
        "--window-size=1280,3600",
        f"--screenshot={picture}",
    )
    assert picture.stat().st_size > 100_000


def test_reads_without_script(tmp_path: Path) -> None:
    """Everything is in the file itself: the browser adds only the tip that script makes."""
    source = pages.checkup_page(checkups.input_bound(), checkups.PAGES)
    dom = browse(tmp_path, source, "--dump-dom").stdout
    assert dom.count("<svg") == source.count("<svg")
    assert "Each step waits" in source


def test_a_broken_policy_would_be_noticed(tmp_path: Path) -> None:
    """The tests above see the console: a page that breaks its own policy fails them."""
    source = pages.checkup_page(checkups.input_bound(), {}).replace("</body>", "<script>void 0</script></body>")
    with pytest.raises(AssertionError, match="Executing inline script violates"):
        browse(tmp_path, source, "--dump-dom")
