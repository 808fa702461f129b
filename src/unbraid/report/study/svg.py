# SPDX-License-Identifier: Apache-2.0
"""Elements, scales and labels of SVG figures, which need no browser and no script.

Coordinates have one decimal and widths of text are estimated, so that the same numbers give the
same file on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

INK, MUTED, RULE = "#1b2430", "#5a6675", "#e3e7ec"
SIZE = 12.0
"""Of text, in pixels."""
LINE = 15.0
"""From one line of a label to the next."""
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_WIDTHS = {
    **dict.fromkeys("iljtfrI.,:;'|!()[] ", 0.36),
    **dict.fromkeys("mwMW%", 0.95),
    **dict.fromkeys("abcdeghknopqsuvxyz", 0.6),
}
_OTHER_WIDTH = 0.66


def element(tag: str, text: str | None = None, /, **attributes: float | str) -> str:
    """One element; underscores in names of attributes are hyphens, a hyphen after them is dropped.

    >>> element("text", "a < b", x=1.04, text_anchor="end")
    '<text x="1" text-anchor="end">a &lt; b</text>'
    """
    names = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    spelled = "".join(f' {name}="{escape(_plain(value))}"' for name, value in names.items())
    return f"<{tag}{spelled}/>" if text is None else f"<{tag}{spelled}>{escape(text)}</{tag}>"


def group(parts: Iterable[str], **attributes: float | str) -> str:
    """Elements that share attributes."""
    opened = element("g", **attributes).removesuffix("/>")
    return f"{opened}>{''.join(parts)}</g>"


def document(width: float, height: float, parts: Iterable[str], about: str) -> str:
    """A whole figure on white, *about* in words for those who do not see it."""
    opened = element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_plain(width)} {_plain(height)}",
        width=width,
        height=height,
        role="img",
        aria_label=about,
        font_family=_FONT,
        font_size=SIZE,
        fill=INK,
    ).removesuffix("/>")
    paper = element("rect", width=width, height=height, fill="#ffffff")
    return f"{opened}>{paper}{''.join(parts)}</svg>\n"


def _plain(value: float | str) -> str:
    if isinstance(value, str):
        return value
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def text_width(text: str, size: float = SIZE) -> float:
    """About how many pixels *text* takes in the widest of usual fonts."""
    return size * sum(_WIDTHS.get(letter, _OTHER_WIDTH) for letter in text)


def wrapped(text: str, width: float) -> list[str]:
    """*text* in lines of at most *width* pixels, broken after spaces and underscores; a part that
    is longer has a line of its own.

    >>> wrapped("factor_vae_score", 70)
    ['factor_', 'vae_score']
    """
    lines = [""]
    for part in text.replace(" ", " \0").replace("_", "_\0").split("\0"):
        if lines[-1] and text_width((lines[-1] + part).rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]


@dataclass(frozen=True)
class Scale:
    """Numbers along an axis: *low* is drawn at the pixel *start*, *high* at *end*."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """The pixel of *value*; what lies beyond an end is drawn there."""
        low, high = self.low, self.high
        value = min(max(value, low), high)
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, apart: float = 45.0) -> list[float]:
        """Round numbers, about so many pixels *apart*."""
        most = max(2, round(abs(self.end - self.start) / apart))
        if self.logarithmic:
            found = _round_decades(self.low, self.high, most)
            if len(found) > 1:
                return found
        width = self.high - self.low
        step = _round_up(width / most)
        while 2 * step > width * (1 + 1e-9):  # two ticks at least
            step = _round_up(step / 3)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def _round_up(number: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(number))
    return next(one * power for one in (1, 2, 5, 10) if one * power >= number * (1 - 1e-9))


def _round_decades(low: float, high: float, most: int) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        found = [float(f"{digit}e{power}") for power in decades for digit in digits]
        found = [one for one in found if low <= one <= high]
        if len(found) <= most + 1:
            break
    return found


def spread(
    values: Sequence[float], start: float, end: float, *, zero: bool = False, log: bool = False
) -> Scale:
    """A scale for *values* with a little room beyond them, from *zero* where it is asked for."""
    low, high = min(values), max(values)
    if log:
        room = max((high / low) ** 0.05, 1.02)
        return Scale(low / room, high * room, start, end, logarithmic=True)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = 0.05 * (high - low) or 0.5
    keep_low, keep_high = (zero and low == 0.0), (zero and high == 0.0 and low < 0.0)
    return Scale(low - room * (not keep_low), high + room * (not keep_high), start, end)


def tick_shown(value: float) -> str:
    """A number beside an axis.

    >>> tick_shown(-0.5), tick_shown(20000), tick_shown(1e-6)
    ('−0.5', '20,000', '1e−06')
    """
    large = abs(value) >= 1000 and value == int(value)
    return (f"{value:,.0f}" if large else f"{value:g}").replace("-", "−")


def upright(text: str, x: float, y: float) -> str:
    """Text that runs upwards, with its middle at *y*."""
    turned = f"rotate(-90 {x:.1f} {y:.1f})"
    return element("text", text, x=x, y=y, transform=turned, text_anchor="middle", fill=MUTED)


def names_below(
    middles: Sequence[tuple[str, float]], slot: float, top: float
) -> tuple[list[str], float]:
    """Names below *top*, each in its slot, turned where they would not fit; and their height."""
    lines = {name: wrapped(name, slot - 6) for name, _ in middles}
    if all(text_width(line) <= slot - 2 for each in lines.values() for line in each):
        parts = [part for name, x in middles for part in centred(lines[name], x, top + 17, INK)]
        return parts, LINE * max(len(each) for each in lines.values())
    parts = []
    for name, x in middles:
        place = {"x": x + 4, "y": top + 15, "transform": f"rotate(-40 {x + 4:.1f} {top + 15:.1f})"}
        parts.append(element("text", name, **place, text_anchor="end"))
    longest = max(text_width(name) for name, _ in middles)
    return parts, longest * math.sin(math.radians(40)) + 10


def centred(lines: Sequence[str], x: float, y: float, colour: str) -> list[str]:
    """Lines of text, each with its middle at *x*, the first at *y*."""
    return [
        element("text", line, x=x, y=y + LINE * number, text_anchor="middle", fill=colour)
        for number, line in enumerate(lines)
    ]
