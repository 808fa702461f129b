# SPDX-License-Identifier: Apache-2.0
"""What holds for every page: it is sound, loads nothing, and a browser draws all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from unbraid.report.page import is_page

_VOID = {"meta", "link", "img", "br", "hr", "input", "wbr"}
_ADDRESSES = ("src", "href", "srcset", "data", "action", "poster")


class Page(HTMLParser):
    """The page as a list of tags and the text outside scripts and styles."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.headings: list[int] = []
        self.figures: dict[str, Any] = {}
        self.template: dict[str, Any] = {}
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(path.read_text(encoding="utf-8"))
        assert self._open == []
        self.text = re.sub(r"\s+", " ", " ".join(self.words))
        self.ids = [attributes["id"] for _, attributes in self.tags if attributes.get("id")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in _VOID:
            self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        inside, attributes = self._open[-1] if self._open else ("", {})
        if inside == "script" and attributes.get("id") == "figures":
            record = json.loads(data)
            self.figures, self.template = record["figures"], record["template"]
        elif inside not in ("script", "style"):
            self.words.append(data)

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [
            found
            for name, found in self.tags
            if name == tag and all(found.get(k.rstrip("_")) == v for k, v in wanted.items())
        ]


def drawn(figure: Any) -> dict[str, Any]:
    """A Plotly figure as the page holds it: `data` and `layout`, without the shared template."""
    record = json.loads(json.dumps(figure.to_plotly_json(), allow_nan=False))
    del record["layout"]["template"]
    return record


def assert_sound(page: Page, verb: str, *, python_words: Sequence[str] = ()) -> None:
    """The page is *verb*'s, whole, accessible, and neither loads anything nor shows a bare nan.

    *python_words* are texts in which None is meant.
    """
    assert is_page(page.path, verb)
    assert len(page.ids) == len(set(page.ids))
    for tag, attributes in page.tags:
        for name in _ADDRESSES:
            address = attributes.get(name) or "data:,"
            if tag == "a" and name == "href":
                inside = address.startswith("#")
                assert address[1:] in page.ids if inside else (page.path.parent / address).is_file()
            else:
                assert address.startswith("data:")
        for address in re.findall(r"url\(([^)]*)\)", attributes.get("style") or ""):
            assert address.startswith("data:image/png;base64,")
        assert attributes.get("aria-labelledby", page.ids[0]) in page.ids
    assert all(attributes.get("alt") for attributes in page.all("img"))
    assert all(attributes.get("scope") for attributes in page.all("th"))
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    steps = zip(page.headings, page.headings[1:], strict=False)
    assert all(after <= before + 1 for before, after in steps)
    boxes = page.all("div", class_="figure")
    assert sorted(str(box["data-figure"]) for box in boxes) == sorted(page.figures)
    assert all(box.get("aria-label") for box in boxes)
    assert all(figure["data"] for figure in page.figures.values())
    assert all("template" not in figure["layout"] for figure in page.figures.values())
    # What a user wrote is text: the scripts are Plotly, the figures and ours.
    assert len(page.all("script")) == (3 if boxes else 0)
    text = page.text
    for words in python_words:
        text = text.replace(words, "")
    assert re.findall(r"\b(?:nan|NaN|None|inf|Undefined)\b", text) == []


def assert_drawn(browser: Any, width: int) -> None:
    """The open page fits its window, draws all that is visible, and fetched nothing."""
    checks = {
        "undrawn": "[...document.querySelectorAll('.figure')].filter(box => box.offsetParent !=="
        " null && !box.querySelector('svg.main-svg')).map(box => box.dataset.figure)",
        "outside": "[...document.querySelectorAll('.figure .main-svg, img')].filter(one =>"
        " !one.closest('.scroll') && one.getBoundingClientRect().right > innerWidth).length",
        "cut": "[...document.querySelectorAll('.figure')].filter(box =>"
        " [...box.querySelectorAll('.xtitle, .ytitle, .legendtext')].some(text => { const one ="
        " text.getBoundingClientRect(), all = box.getBoundingClientRect(); return one.left <"
        " all.left - 1 || one.right > all.right + 1 || one.top < all.top - 1 || one.bottom >"
        " all.bottom + 1; })).map(box => box.dataset.figure)",
        "broken": "[...document.images].filter(one => !one.complete || !one.naturalWidth).length",
        # Data URIs are listed as resources too, though nothing is fetched for them.
        "fetched": "performance.getEntriesByType('resource').map(one => one.name).filter(name =>"
        " !name.startsWith('data:'))",
        "wide": f"Math.max(0, document.documentElement.scrollWidth - {width})",
        "window": "innerWidth",
    }
    script = "return {" + ", ".join(f"{name}: {check}" for name, check in checks.items()) + "}"
    found = browser.execute_script(script)
    nothing = {"undrawn": [], "outside": 0, "cut": [], "broken": 0, "fetched": [], "wide": 0}
    assert found == {**nothing, "window": width}
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def resized(browser: Any, width: int) -> None:
    """Change the window of an open page and wait until its figures have followed."""
    from selenium.webdriver.support.ui import WebDriverWait

    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    behind = (
        "return [...document.querySelectorAll('.figure')].filter(box => box.offsetParent !=="
        " null).some(box => Math.abs(box.querySelector('.main-svg').getBoundingClientRect().width -"
        " box.clientWidth) > 1)"
    )
    WebDriverWait(browser, 30, poll_frequency=0.03).until(
        lambda page: not page.execute_script(behind)
    )
