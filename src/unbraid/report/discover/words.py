# SPDX-License-Identifier: Apache-2.0
"""What a discovery found and did not find, for a person who does not know what a model is.

Sentences here are those that the terminal says too; the rest of the page's are in its template.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from unbraid.core.words import count
from unbraid.networks.conv import SIDES
from unbraid.search.discover.find import LITTLE_EXPLAINED
from unbraid.search.discover.findings import Certainty, Discovery, FoundFactor

_NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()
_STILL_RISING = 0.02
"""The agreement is rising at the end where the last third of the epochs added more than this."""
_FEW_IMAGES = 1_000
_MUCH_LEFT = 0.5
_NEARLY_ALL = 0.95
_SLUG_LENGTH = 40


@dataclass(frozen=True)
class TableColumn:
    """A column of the table of codes, for what writes the table and for what explains it."""

    name: str
    latent: int | None
    """The latent whose means it holds; None for the columns that name the image of a row."""
    meaning: str


def learned(found: Discovery) -> bool:
    """Whether the models draw the images well enough for anything to be said, and not all groups of
    them are collapsed.
    """
    return not (found.collapsed or found.explained < LITTLE_EXPLAINED)


def found_sentence(found: Discovery) -> str:
    """What was found, in one sentence."""
    images = f"your {count(found.images, 'image')}"
    titles = [title for _, title in titled(found.factors)]
    if titles:
        thing, was = (
            ("thing that varies", "was") if len(titles) == 1 else ("things that vary", "were")
        )
        number = _number(len(titles)).capitalize()
        return f"{number} {thing} in {images} {was} found: {', '.join(titles)}."
    if learned(found):
        return f"Nothing was found in {images} that several models agree on."
    if found.collapsed:
        return (
            f"Nothing counts as found in {images}: every group of models was collapsed. They need"
            " more time."
        )
    return (
        f"Nothing can be said yet: the models have not learned to draw {images}. They need more"
        " time."
    )


def doubtful_sentence(found: Discovery) -> str:
    """That there is more which others do not confirm; empty where there is not."""
    many = len(found.doubtful)
    if many == 0 or not learned(found):
        return ""
    more = " more" if found.factors else ""
    thing, apart = ("thing", "It is") if many == 1 else ("things", "They are")
    return (
        f"The chosen model uses {_number(many)}{more} {thing} that the other models do not confirm."
        f" {apart} shown apart in the report, and may be chance."
    )


def titled(
    factors: Sequence[FoundFactor], before: Sequence[FoundFactor] = ()
) -> list[tuple[FoundFactor, str]]:
    """Factors with their plain names, numbered where two have the same one or one of those told
    *before* has it.
    """
    seen, rows = set[str](), []
    for factor in (*before, *factors):
        names = itertools.chain(
            [factor.name.title], (f"{factor.name.title} ({more})" for more in itertools.count(2))
        )
        title = next(name for name in names if name not in seen)
        seen.add(title)
        rows.append((factor, title))
    return rows[len(before) :]


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
        return "There was no other model to compare with, so it is not known how sure this is."
    number = "None" if seen == 0 and others > 1 else f"{seen:,}"
    agreement = certainty.agreement
    shown = f" (agreement {agreement:.2f})" if math.isfinite(agreement) else ""
    return (
        f"{number} of {count(others, 'other model')}, trained from other random starting points,"
        f" found the same{shown}."
    )


def unexplained_sentence(explained: float) -> str:
    """How much of the differences between the images is left unexplained."""
    if not math.isfinite(explained):
        return "How much of the differences between your images is explained could not be measured."
    given = max(0.0, min(1.0, explained))
    if given == 0:
        return "The models redraw almost none of the differences between your images."
    said = f"The models redraw {about(given)} of the differences between your images."
    if given >= _NEARLY_ALL:
        return f"{said} Little is left unexplained ({percent(1 - given)})."
    return f"{said} What the other {percent(1 - given)} consists of was not found."


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
        return count(max(1, round(60 * minutes)), "second")
    return count(round(minutes), "minute") if minutes < 120 else f"{minutes / 60:.3g} hours"


def remedies(found: Discovery) -> list[str]:
    """Names of the reasons why more may not have been found, the likeliest first.

    What each means and what to do about it is said in the page's template.
    """
    rise = last_rise(found.best_by_epoch)
    if not learned(found):
        time = "hardly begun"
    elif rise is None:
        time = "short"
    else:
        time = "still rising" if rise > _STILL_RISING else "settled"
    reasons = {
        time: time != "settled",
        "resized": found.resized_from is not None,
        "few images": found.images < _FEW_IMAGES,
        "too varied": learned(found) and not found.explained >= _MUCH_LEFT,
        "small things": True,
        "kinds and turns": True,
    }
    return [name for name, holds in reasons.items() if holds] + ["settled"] * (time == "settled")


def lost_pixels(found: Discovery) -> int:
    """Size in the given images below which things are lost, since models saw smaller ones."""
    assert found.resized_from is not None
    (high, wide), (height, width) = found.resized_from, found.image_shape[:2]
    return math.ceil(2 * max(high / height, wide / width))


def larger_side(found: Discovery) -> int | None:
    """The next larger size at which models could see the images."""
    return next((side for side in SIDES if side > found.image_shape[0]), None)


def last_rise(scores: Sequence[float]) -> float | None:
    """Growth of the best agreement over the last third of the epochs; None with fewer than 3."""
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
    for kind, factors, before in (
        ("factor", found.factors, ()),
        ("doubtful", found.doubtful, found.factors),
    ):
        for place, (factor, title) in enumerate(titled(factors, before), start=1):
            slug = _slug(factor.name.title)
            doubt = "" if kind == "factor" else f"; {_doubt(found)}, so use it with care"
            columns.append(
                TableColumn(
                    "_".join(filter(None, (kind, f"{place}", slug))), factor.latent, title + doubt
                )
            )
    return columns


def _doubt(found: Discovery) -> str:
    """Why a doubtful factor is one."""
    if found.collapsed:
        return "of models of which every group was collapsed"
    return "not confirmed by other models" if learned(found) else "of models that cannot draw yet"


def _slug(title: str) -> str:
    """*title* as part of a column's name, cut between words where it is long.

    >>> _slug("something in the lower part of the image")
    'something_in_the_lower_part'
    """
    slug = re.sub(r"[\W_]+", "_", title.lower()).strip("_")
    # Cut where it was when "image" was "picture": scripts read these columns.
    most = _SLUG_LENGTH - 2 * slug.endswith("_image")
    if len(slug) <= most:
        return slug
    words = slug[: most + 1].split("_")[:-1] or [slug[:most]]
    while len(words) > 1 and words[-1] in ("of", "the", "in", "and"):
        words.pop()
    return "_".join(words)


def short_name(name: str, most: int = 24) -> str:
    """A file name with its middle left out where it is long: its ends distinguish files.

    >>> short_name("leaf.png"), short_name("2024-05-01_greenhouse_camera3_00017.png")
    ('leaf.png', '2024-05-01…ra3_00017.png')
    """
    if len(name) <= most:
        return name
    head = (most - 1) * 11 // 24
    return f"{name[:head]}…{name[head + 1 - most :]}"


def about(share: float) -> str:
    """A share in percent, as an estimate."""
    shown = percent(share)
    return shown if "than" in shown or share == 1 else f"about {shown}"


def _number(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number}"
