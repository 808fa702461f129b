# SPDX-License-Identifier: Apache-2.0
"""Writes a page: the template of a slice, the shared style and Plotly, in one file for offline use.

A slice is a folder of `unbraid.report` with a `page.html.j2` and, where it has a style of its own,
a `page.css`. Its figures are the entry `figures` of the context: a Plotly figure for each name.
"""

from __future__ import annotations

import datetime
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.errors import invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.files import remove_halves, write_bytes
from unbraid.core.folders import check_writable, given_path
from unbraid.core.words import count
from unbraid.report.words import bytes_shown

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from jinja2 import Environment


_MADE_FROM, _CHECKSUM = "sha256 of what it was made from:", "sha256 of the page above:"


def write_page(path: Path, verb: str, context: dict[str, Any], made_from: str = "") -> Path:
    """Write the page of *verb* to *path* and return it. What comes from *context* is escaped.

    *made_from* is a digest by which `is_whole_page` knows it from a page that was copied here.
    """
    content = render_page(verb, context).encode()
    content += f"<!-- {_MADE_FROM} {made_from} -->\n".encode() if made_from else b""
    content += f"<!-- {_CHECKSUM} {hashlib.sha256(content).hexdigest()} -->\n".encode()
    remove_halves(path)
    write_bytes(path, content)
    failpoint("page.written")
    return path


def page_place(out: str | Path, name: str, verb: str) -> Path:
    """The file that *out* stands for, itself or *name* in it; no other file is written over."""
    path = given_path("out", out)
    path = path if path.suffix.lower() in (".html", ".htm") else path / name
    check_writable("out", path.parent)
    if path.is_dir() or (path.exists() and not is_page(path, verb)):
        rule = "must be a new .html file, or an earlier page of this kind"
        raise invalid("out", rule, str(path), "Choose another name.")
    return path


def is_page(path: Path, verb: str) -> bool:
    """Whether *path* is a page of *verb*, and no other file of its name."""
    return f'<p class="kicker">Unbraid {verb}'.encode() in path.read_bytes()


def is_whole_page(path: Path, made_from: str) -> bool:
    """Whether the page at *path* is as it was written, and *made_from* what has this digest; as far
    as one of an earlier version says.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return False
    page, found, told = content.rpartition(f"<!-- {_CHECKSUM} ".encode())
    if not found:
        return content.rstrip().endswith(b"</html>")
    if told != f"{hashlib.sha256(page).hexdigest()} -->\n".encode():
        return False
    _, found, told = page.rpartition(f"<!-- {_MADE_FROM} ".encode())
    return not found or told == f"{made_from} -->\n".encode()


def render_page(verb: str, context: dict[str, Any]) -> str:
    """The page of *verb* as one text."""
    from importlib.resources import files

    from markupsafe import Markup

    home = files("unbraid.report")
    styles = [file for file in (home / "base.css", home / verb / "page.css") if file.is_file()]
    shared: dict[str, Any] = {
        "verb": "report" if verb == "train" else verb,
        "css": Markup("".join(file.read_text(encoding="utf-8") for file in styles)),
        "made_on": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "facts": (),
    }
    figures = context.get("figures", {})
    if figures:
        from plotly.offline import get_plotlyjs

        shared["js"] = Markup((home / "base.js").read_text(encoding="utf-8"))
        shared["plotly"] = Markup(get_plotlyjs())
    page = environment().get_template(f"{verb}/page.html.j2")
    return page.render({**shared, **context, "figures": _records(figures)})


@cache
def environment() -> Environment:
    """What renders templates; what they are given is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("unbraid.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"sort_keys": True, "allow_nan": False}
    made.filters["bytes"] = bytes_shown
    made.globals["count"] = count
    return made


def _records(figures: dict[str, go.Figure]) -> dict[str, Any]:
    """Figures as the page's script reads them, with the template that all share only once."""
    if not figures:
        return {}
    from unbraid.report.figure import TEMPLATE

    records = {name: figure.to_plotly_json() for name, figure in figures.items()}
    for record in records.values():
        record["layout"].pop("template", None)
    return {"template": TEMPLATE.to_plotly_json(), "figures": records}
