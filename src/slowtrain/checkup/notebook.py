"""A checkup that a notebook shows as the HTML report."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from slowtrain.causes import all_causes
from slowtrain.checkup import examine_recording
from slowtrain.model import Checkup

HEIGHT_PX = 720  # of the report


class ShownCheckup(Checkup, frozen=True):
    """A checkup with the methods by which a notebook and Python's prompt show a value."""

    def _repr_html_(self) -> str:
        from slowtrain.report import pages

        whole = pages.checkup_page(self, {c.id: c.page for c in all_causes()})
        # A separate document, so that styles and scripts of the notebook and of the report do not affect each other.
        page = escape(whole, quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts" title="Slowtrain report" '
            f'style="width:100%;height:{HEIGHT_PX}px;border:1px solid #8884;border-radius:6px"></iframe>'
        )

    def __str__(self) -> str:
        from slowtrain.report import text

        return text.checkup_text(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("…" if cycle else str(self))


def shown_checkup(recording: Path) -> ShownCheckup:
    """The checkup of a recording. Raises ``InputError`` if it cannot be read."""
    found = examine_recording(recording)
    return ShownCheckup(**{name: getattr(found, name) for name in found.__struct_fields__})
