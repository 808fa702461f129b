# SPDX-License-Identifier: Apache-2.0
"""A template, the house style and, where there are figures, Plotly, as one page that opens offline."""

from __future__ import annotations

from typing import Any

from unbraid.report.train.provenance import bytes_shown


def render_page(
    template: str, context: dict[str, Any], *, figures: bool = True, styles: tuple[str, ...] = ()
) -> str:
    """The page of *template* in one text, with *styles* after the house's own. Whatever comes from
    *context* is escaped.
    """
    from importlib.resources import files

    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("unbraid.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["bytes"] = bytes_shown
    parts = files("unbraid.report") / "templates"
    inlined = {
        "css": Markup(
            "".join((parts / name).read_text(encoding="utf-8") for name in ("report.css", *styles))
        )
    }
    if figures:
        from plotly.offline import get_plotlyjs

        inlined["js"] = Markup((parts / "report.js").read_text(encoding="utf-8"))
        inlined["plotly"] = Markup(get_plotlyjs())
    return environment.get_template(template).render(**context, **inlined)
