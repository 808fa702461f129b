# SPDX-License-Identifier: Apache-2.0
"""What a discovery found and did not find, in sentences for a person who does not know what a model
is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from unbraid.networks.conv import SIDES
from unbraid.search.discover.find import LITTLE_EXPLAINED
from unbraid.search.discover.findings import Certainty, Discovery, FoundFactor

_NUMBERS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_STILL_RISING = 0.02
"""The agreement counts as rising at the end where the last third of the epochs added more than
this.
"""
_FEW_IMAGES = 1_000
_MUCH_LEFT = 0.5
_NEARLY_ALL = 0.95
_SLUG_LENGTH = 40


@dataclass(frozen=True)
class TableColumn:
    """A column of the table of codes, so that who writes the table and who explains it say the
    same.
    """

    name: str
    latent: int | None
    """The latent whose means it holds; None for the columns that tell which image a row is of."""
    meaning: str


def learned(found: Discovery) -> bool:
    """Whether the models draw the images well enough for anything to be said."""
    return not found.explained < LITTLE_EXPLAINED


def found_sentence(found: Discovery) -> str:
    """What was found, in one sentence."""
    titles = [title for _, title in titled(found.factors)]
    if not titles:
        if not learned(found):
            return (
                "Nothing can be said yet: the models have not learned to draw your"
                f" {found.images:,} images. They need more time."
            )
        return f"Nothing was found in your {found.images:,} images that several models agree on."
    count = len(titles)
    number = (_NUMBERS[count] if count < len(_NUMBERS) else f"{count}").capitalize()
    thing, was = ("thing that varies", "was") if count == 1 else ("things that vary", "were")
    return f"{number} {thing} in your {found.images:,} images {was} found: {', '.join(titles)}."


def doubtful_sentence(found: Discovery) -> str:
    """That there is more which others do not confirm; empty where there is not."""
    count = len(found.doubtful)
    if count == 0 or not learned(found):
        return ""
    number = _NUMBERS[count] if count < len(_NUMBERS) else f"{count}"
    if not found.factors:
        uses = f"The chosen model uses {number} {_things(count)} that the others do not confirm"
        return f"{uses}; {_it(count)} shown apart in the report, and may be chance."
    more = "more that the chosen model uses and the others do not confirm"
    return (
        f"There {'is' if count == 1 else 'are'} {number} {more}; {_it(count)} shown apart in the"
        " report."
    )


def titled(factors: Sequence[FoundFactor]) -> list[tuple[FoundFactor, str]]:
    """Factors with their plain names, numbered where two have the same one."""
    seen: dict[str, int] = {}
    rows = []
    for factor in factors:
        title = factor.name.title
        seen[title] = seen.get(title, 0) + 1
        rows.append((factor, title if seen[title] == 1 else f"{title} ({seen[title]})"))
    return rows


def sure_word(certainty: Certainty) -> str:
    """How far the other models agree, in a few words."""
    seen, others = certainty.seen_in, certainty.others
    if others == 0:
        return "Not checked"
    if seen == others:
        return "All agree" if others > 1 else "The other agrees"
    if seen == 0:
        return "None agrees" if others > 1 else "The other does not"
    return (
        "Most agree" if 2 * seen > others else "Half agree" if 2 * seen == others else "Few agree"
    )


def sure_sentence(certainty: Certainty) -> str:
    """How many other models found the same."""
    seen, others = certainty.seen_in, certainty.others
    if others == 0:
        return "No other model was there to compare with, so how sure this is cannot be said."
    number = "None" if seen == 0 and others > 1 else f"{seen:,}"
    told = (
        f"{number} of {others:,} other {'model' if others == 1 else 'models'}, trained from scratch"
        " from other starting points,"
    )
    agreement = (
        f" (agreement {certainty.agreement:.2f})" if math.isfinite(certainty.agreement) else ""
    )
    return f"{told} found the same{agreement}."


def share_sentence(share: float) -> str:
    """How much of the images' variation hangs on one factor."""
    if not math.isfinite(share):
        return "How much of the variation hangs on it could not be measured."
    if share <= 0:
        return "Next to nothing of all that varies in the images hangs on it."
    return (
        f"Not knowing it loses {_about(share)} of all that varies in the images. What is lost with"
        " different factors overlaps."
    )


def unexplained_sentence(explained: float) -> str:
    """How much of the variation is left over."""
    if not math.isfinite(explained):
        return "How much of the variation is left unexplained could not be measured."
    given = max(0.0, min(1.0, explained))
    told = f"The best models give back {_about(given)} of all that varies in your images"
    if given == 0:
        return (
            "The best models give back next to nothing of what varies in your images: all of it is"
            " left unexplained."
        )
    if given >= _NEARLY_ALL:
        return f"{told}: little is left unexplained ({percent(1 - given)})."
    return (
        f"{told}. The rest, {percent(1 - given)}, is left unexplained: what it is made of was not"
        " found."
    )


def percent(share: float) -> str:
    """A share in whole percent, with the ends kept apart from nothing and all.

    >>> percent(0.384), percent(0.004), percent(0.999), percent(1.0), percent(0.0)
    ('38%', 'less than 1%', 'more than 99%', '100%', '0%')
    """
    if 0 < share < 0.01:
        return "less than 1%"
    if 0.99 < share < 1:
        return "more than 99%"
    return f"{round(100 * share)}%"


def duration(minutes: float) -> str:
    """A time in the unit that suits it.

    >>> duration(0.5), duration(1.0), duration(14.8), duration(150.0)
    ('30 seconds', '1 minute', '15 minutes', '2.5 hours')
    """
    if minutes < 0.995:
        return _counted(max(1, round(60 * minutes)), "second")
    return _counted(round(minutes), "minute") if minutes < 120 else f"{minutes / 60:.3g} hours"


def remedies(found: Discovery) -> list[str]:
    """Why more may not have been found and what to do about it, the likeliest first."""
    height, width = found.image_shape[:2]
    lines = []
    rise = last_rise(found.best_by_epoch)
    if not learned(found):
        lines.append(
            "It was far too short: the models had just begun to learn. Let it run several times as"
            " long."
        )
    elif rise is None:
        lines.append("It was short. Let it run longer: what changes few pixels is learnt last.")
    elif rise > _STILL_RISING:
        lines.append(
            "It may have been too short: the models were still coming to agree more when the time"
            " was up. Let it run longer."
        )
    if found.resized_from is not None:
        given_height, given_width = found.resized_from
        lost = math.ceil(2 * max(given_height / height, given_width / width))
        larger = next((side for side in SIDES if side > height), None)
        more = f" or let them see more with --resize {larger}, which is slower" if larger else ""
        lines.append(
            f"The models saw your images at {height} × {width} pixels instead of {given_height} ×"
            f" {given_width}. What is smaller than about {lost} pixels in yours is lost to them."
            f" Cut out the part that matters{more}."
        )
    if found.images < _FEW_IMAGES:
        lines.append(
            f"{found.images:,} images are few. Some thousands make it much easier to tell apart"
            " what varies together."
        )
    if learned(found) and not found.explained >= _MUCH_LEFT:
        lines.append(
            "Your images may differ in too many ways at once, as photographs of different scenes"
            " do. Few numbers cannot tell them apart. Images of one kind of thing, taken from one"
            " place in one light, work best."
        )
    lines += [
        (
            "Small things count little here. What changes few pixels, or changes them faintly, is"
            " easily missed however much it matters to you. Cut the images closer around it."
        ),
        (
            "Kinds and turns are hard. What comes in kinds instead of degrees, such as a species,"
            " and what comes round in a circle, such as an angle, is often found in pieces or not"
            " at all."
        ),
    ]
    if learned(found) and rise is not None and rise <= _STILL_RISING:
        lines.append(
            "More time alone may change little: the agreement between the models had stopped rising"
            " before the end."
        )
    return lines


def last_rise(scores: Sequence[float]) -> float | None:
    """How much the best agreement grew over the last third of the epochs; None with fewer than
    three of them.
    """
    finite = [score for score in scores if math.isfinite(score)]
    if len(finite) < 3:
        return None
    before = finite[: -math.ceil(len(finite) / 3)]
    return max(finite) - max(before)


def table_columns(found: Discovery) -> list[TableColumn]:
    """The columns of the table of codes, in order: which image, then a number for each factor."""
    columns = [
        TableColumn("image", None, "the number of the image, counted from 0"),
        TableColumn("name", None, "its file name, or its number where it came without one"),
    ]
    for kind, factors in (("factor", found.factors), ("doubtful", found.doubtful)):
        for place, (factor, title) in enumerate(titled(factors), start=1):
            slug = _slug(factor.name.title)
            doubt = (
                "" if kind == "factor" else "; not confirmed by other models, so use it with care"
            )
            columns.append(
                TableColumn(
                    "_".join(filter(None, (kind, f"{place}", slug))), factor.latent, title + doubt
                )
            )
    return columns


def _slug(title: str) -> str:
    """*title* as part of a column's name, cut between words where it is long.

    >>> _slug("something in the lower part of the image")
    'something_in_the_lower_part'
    """
    slug = re.sub(r"[^0-9a-z]+", "_", title.lower()).strip("_")
    if len(slug) <= _SLUG_LENGTH:
        return slug
    words = slug[: _SLUG_LENGTH + 1].split("_")[:-1] or [slug[:_SLUG_LENGTH]]
    while len(words) > 1 and words[-1] in ("of", "the", "in", "and"):
        words.pop()
    return "_".join(words)


def short_name(name: str, most: int = 24) -> str:
    """A file name with its middle left out where it is long: the beginning and the end tell files
    apart.

    >>> short_name("leaf.png"), short_name("2024-05-01_greenhouse_camera3_00017.png")
    ('leaf.png', '2024-05-01…ra3_00017.png')
    """
    if len(name) <= most:
        return name
    head = (most - 1) * 11 // 24
    return f"{name[:head]}…{name[head + 1 - most :]}"


def _about(share: float) -> str:
    told = percent(share)
    return told if "than" in told or share == 1 else f"about {told}"


def _things(count: int) -> str:
    return "thing" if count == 1 else "things"


def _it(count: int) -> str:
    return "it is" if count == 1 else "they are"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
