# SPDX-License-Identifier: Apache-2.0
"""Jinja templates of generated pages."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tools.docs.wrap import wrap_lines

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,
)
_TEMPLATES.filters["wrapped"] = wrap_lines


def render(template: str, **values: Any) -> str:
    """The text of *template*.md.j2 with *values* filled in."""
    return _TEMPLATES.get_template(f"{template}.md.j2").render(**values)
