# SPDX-License-Identifier: Apache-2.0
"""The page's text: scripts and style inside, allowed by their digests and nothing else.

The same page is served, put into a folder or mailed as one file; only where its models come from
differs: asked of the server, from a script of a file each (a page from a disk may read no other
file), or out of the page itself.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Literal

Mode = Literal["served", "folder", "single"]
FIRST, LAST = ("arrays.js", "network.js"), ("app.js",)
"""Scripts that others need, and the one that needs all others."""


def render(
    record: dict[str, Any], *, token: str = "", models: Mapping[str, bytes] | None = None
) -> str:
    """The page of a population; *models* are in it, by key."""
    from markupsafe import Markup

    from unbraid.report.page import environment

    mode: Mode = record["mode"]
    script, style = _script(), _style()
    page = environment().get_template("explore/page.html.j2")
    return page.render(
        title=record["title"],
        policy=policy(mode, script, style),
        style=Markup(style),
        script=Markup(script),
        record=record,
        token=token,
        models={key: base64.b64encode(content).decode() for key, content in (models or {}).items()},
    )


def model_script(key: str, content: bytes) -> str:
    """The script that gives the page of a folder one model."""
    text = base64.b64encode(content).decode()
    return f"window.unbraid.receive({json.dumps(key)}, {json.dumps(text)});\n"


def policy(mode: Mode, script: str, style: str) -> str:
    """The page's Content-Security-Policy: nothing is fetched but from where the page came."""
    scripts, fetched = [_digest(script)], "'none'"
    if mode == "folder":  # browsers differ in whether a file's own origin is 'self'
        scripts += ["'self'", "file:"]
    if mode == "served":
        fetched = "'self'"
    return (
        f"default-src 'none'; script-src {' '.join(scripts)}; style-src {_digest(style)};"
        f" img-src data: blob:; connect-src {fetched}; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@functools.cache
def _script() -> str:
    folder = files("unbraid.report.explore") / "scripts"
    names = sorted(one.name for one in folder.iterdir() if one.name.endswith(".js"))
    middle = [name for name in names if name not in FIRST + LAST]
    return "\n".join(
        (folder / name).read_text(encoding="utf-8") for name in (*FIRST, *middle, *LAST)
    )


@functools.cache
def _style() -> str:
    folder = files("unbraid.report.explore")
    names = sorted(one.name for one in folder.iterdir() if one.name.endswith(".css"))
    # The page's own comes first: the others use its colours.
    names.sort(key=lambda name: name != "page.css")
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)
