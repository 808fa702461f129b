# SPDX-License-Identifier: Apache-2.0
"""Settings: members that differ only by their seed, with one name and colour on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unbraid.objectives.schedule import Schedule
from unbraid.population.member import Member
from unbraid.population.plan import Plan

_SYMBOLS = {
    "beta": "β",
    "gamma": "γ",
    "lambda_od": "λ od",
    "lambda_d_factor": "λ d/od",
    "max_capacity": "C max",
}
_ORDERED = ("#35b779", "#1f9e89", "#26828e", "#31688e", "#3e4989", "#482878")
"""Weak to strong, where one objective is swept: from green to violet darker step by step, so that
the order shows in grey too.
"""
HUES = ("#0072b2", "#d55e00", "#009e73", "#b4559a", "#b07c00", "#3a9bd6", "#4d4d4d", "#7a5c2e")
"""One for each objective: Okabe and Ito's colours, the light ones darkened to be read on white."""


@dataclass(frozen=True)
class Setting:
    """One combination of objective, hyperparameters and learning rate, with all its seeds."""

    objective: str
    family: str
    """The objective as people write it: β-VAE."""
    label: str
    """Everything in which it differs from the other settings: β-VAE, β = 4."""
    tick: str
    """The same beside an axis, shorter."""
    strength: float | None
    members: tuple[int, ...]
    colour: str


def symbol(name: str) -> str:
    """A hyperparameter as people write it.

    >>> symbol("beta"), symbol("learning_rate")
    ('β', 'learning rate')
    """
    return _SYMBOLS.get(name, name.replace("_", " "))


def shown(value: Any) -> str:
    """A hyperparameter's value without needless digits.

    >>> shown(4.0), shown(0.0001), shown(1e6), shown("isotropic")
    ('4', '0.0001', '1e+06', 'isotropic')
    """
    return (
        f"{value:g}"
        if isinstance(value, (int, float)) and not isinstance(value, bool)
        else str(value)
    )


def find_settings(plan: Plan) -> list[Setting]:
    """The settings of a plan, objective by objective, each from weak to strong."""
    objectives = list(dict.fromkeys(member.objective for member in plan.members))
    found: list[Setting] = []
    for number, objective in enumerate(objectives):
        own = [group for group in plan.siblings() if group[0].objective == objective]
        cls = type(own[0][0].build())
        own.sort(key=lambda group: _sort_key(group[0], cls.strength))
        colours = (
            shades(HUES[number % len(HUES)], len(own))
            if len(objectives) > 1
            else _spread(_ORDERED, len(own))
        )
        varied = _varied([group[0] for group in own])
        for group, colour in zip(own, colours, strict=True):
            first = group[0]
            values = {
                name: value
                for name, value in _hyperparameters(first).items()
                if name == cls.strength or name in varied
            }
            short = {name: value for name, value in values.items() if name in varied} or values
            found.append(
                Setting(
                    objective=objective,
                    family=cls.label,
                    label=", ".join([cls.label, *_worded(values)]),
                    tick="<br>".join(_worded(short)) or cls.label,
                    strength=_strength(first, cls.strength),
                    members=tuple(member.id for member in group),
                    colour=colour,
                )
            )
    return found


def swept_name(plan: Plan, settings: Sequence[Setting]) -> str | None:
    """The hyperparameter that alone distinguishes the settings, to name an axis, or None."""
    if len({setting.objective for setting in settings}) > 1 or len(settings) < 2:
        return None
    first = [
        next(member for member in plan.members if member.id == setting.members[0])
        for setting in settings
    ]
    varied = _varied(first)
    return next(iter(varied)) if len(varied) == 1 else None


def swept_value(plan: Plan, setting: Setting, name: str) -> str:
    """What *setting* has for *name*, as people write it."""
    member = next(member for member in plan.members if member.id == setting.members[0])
    return shown(member.settings()[name])


def _varied(members: Sequence[Member]) -> set[str]:
    rows = [_hyperparameters(member) for member in members]
    names = dict.fromkeys(name for row in rows for name in row)
    # What only members with labels or pairs have does not set them apart from those without.
    options = tuple(f"{member.supervision}_" for member in members if member.supervision)
    return {
        name
        for name in names
        if len({repr(row.get(name)) for row in rows if name in row or not name.startswith(options)})
        > 1
    }


def _hyperparameters(member: Member) -> dict[str, Any]:
    """The hyperparameters of a member, the learning rate last."""
    settings = member.settings()
    rate = settings.pop("learning_rate")
    del settings["objective"]
    return settings | {"learning_rate": rate}


def _strength(member: Member, name: str | None) -> float | None:
    """The number that sets how strongly the method pushes; of a schedule, where it ends."""
    if name is None:
        return None
    value = getattr(member.build(), name)
    return float(value.end if isinstance(value, Schedule) else value)


def _worded(values: dict[str, Any]) -> list[str]:
    return [f"{symbol(name)} = {shown(value)}" for name, value in values.items()]


def _sort_key(member: Member, strength: str | None) -> tuple[float, int]:
    return (_strength(member, strength) or 0.0, member.id)


def _spread(anchors: Sequence[str], count: int) -> list[str]:
    """*count* colours evenly along a ramp through *anchors*; a single one is its blue."""
    if count == 1:
        return ["#31688e"]
    places = [index * (len(anchors) - 1) / (count - 1) for index in range(count)]
    return [
        mix(anchors[int(place)], anchors[min(int(place) + 1, len(anchors) - 1)], place - int(place))
        for place in places
    ]


def shades(hue: str, count: int) -> list[str]:
    """*count* shades of one hue from light to dark, itself where there is one."""
    if count == 1:
        return [hue]
    return _spread((mix(hue, "#ffffff", 0.42), hue, mix(hue, "#000000", 0.38)), count)


def mix(one: str, other: str, share: float) -> str:
    """The colour *share* of the way from *one* to *other*.

    >>> mix("#000000", "#ffffff", 0.5)
    '#808080'
    """
    pairs = [(int(one[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)
