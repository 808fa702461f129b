# SPDX-License-Identifier: Apache-2.0
"""What the modification and the noise take away at the stated strengths (tables 1 and 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds
from unbraid.studies.study import Analysis
from unbraid.studies.zietlow2021.models import (
    METHODS,
    ON_DSPRITES,
    ON_SHAPES,
    Models,
    at_best,
    best_scale,
    mean_mig,
    models,
    of_halves,
    split_remark,
    strength_words,
)
from unbraid.studies.zietlow2021.pools import SCALED_METHODS
from unbraid.studies.zietlow2021.published import BEST_ON_NOISE, published
from unbraid.studies.zietlow2021.settings import MODIFIED, NOISE, ORIGINAL, VERSIONS, Originals

SHARE = "share of MIG that is left"
OVER_METHODS = "mean over methods"


def loss(among: Sequence[Originals], methods: Sequence[str], version: str) -> Analysis:
    """What *methods* lose from the original to *version* at their stated strengths."""
    return partial(_loss, among=among, methods=methods, version=version)


def _loss(
    table: pd.DataFrame, *, among: Sequence[Originals], methods: Sequence[str], version: str
) -> Finding | None:
    found = models(table, among, (ORIGINAL, version), methods)
    if found is None:
        return None
    rows = found.rows.loc[found.rows["scale"] == 1.0]
    many = len(methods) > 1

    def statistics(rows: pd.DataFrame) -> Mapping[str, float]:
        told: dict[str, float] = {}
        for method in methods:
            before = _mean(rows, ORIGINAL, method)
            after = _mean(rows, version, method)
            lead = f"{method}: " if many else ""
            told |= {
                f"{lead}MIG, original": before,
                f"{lead}MIG, {version}": after,
                f"{lead}fall of MIG": before - after,
                f"{lead}share of MIG that is left": after / before,
            }
        return told | _over_methods(told, SHARE, "beta_vae" if version == NOISE else "")

    return Finding(
        leave_out_seeds(rows, statistics, paper=_printed(found.own, methods, version, many)),
        seeds_figure(rows, "MIG of every restart."),
        _remarks(found.remark, _strengths(found.own, methods), split_remark(found)),
    )


def _printed(
    own: Originals, methods: Sequence[str], version: str, many: bool
) -> Mapping[str, float]:
    """The paper's numbers by statistic."""
    paper: dict[str, float] = {}
    for method in methods:
        before, after = published(own.data, ORIGINAL, method), published(own.data, version, method)
        if before is not None and after is not None:
            lead = f"{method}: " if many else ""
            paper |= {
                f"{lead}MIG, original": before,
                f"{lead}MIG, {version}": after,
                f"{lead}fall of MIG": before - after,
                f"{lead}share of MIG that is left": after / before,
            }
    return paper | _over_methods(paper, SHARE, "beta_vae" if version == NOISE else "")


def _over_methods(told: Mapping[str, float], what: str, apart: str = "") -> dict[str, float]:
    """Means over methods of what each of several has been *told* to have.

    Of one method ten seeds tell little: a mean is told by three times as many models. The mean of
    all but the one set *apart* is told beside what that has less.
    """
    each = {
        name.partition(": ")[0]: one for name, one in told.items() if name.endswith(f": {what}")
    }
    each.pop("ae", None)
    if len(each) < 2:
        return {}
    found = {f"{OVER_METHODS}: {what}": float(np.mean([*each.values()]))}
    if apart in each:
        others = float(np.mean([one for name, one in each.items() if name != apart]))
        found[f"mean over the others less {apart}: {what}"] = others - each[apart]
    return found


def noise_at_equal_strength(table: pd.DataFrame) -> Finding | None:
    """ZIE-N1: MIG with noise less MIG with the pattern, each method at its stated strength."""
    return _at_equal_strength(table, NOISE, "noise less pattern")


def loss_at_equal_strength(table: pd.DataFrame) -> Finding | None:
    """MIG on the original less MIG with the pattern, each method at its stated strength."""
    return _at_equal_strength(table, ORIGINAL, "original less pattern")


def _at_equal_strength(table: pd.DataFrame, first: str, what: str) -> Finding | None:
    found = models(table, ON_DSPRITES, VERSIONS, SCALED_METHODS)
    if found is None:
        return None
    rows = found.rows.loc[found.rows["scale"] == 1.0]

    def statistics(rows: pd.DataFrame) -> Mapping[str, float]:
        mean = _means(rows)
        told = {f"{one}: {what}": mean(first, one) - mean(MODIFIED, one) for one in SCALED_METHODS}
        return told | _over_methods(told, what)

    paper = {
        f"{one}: {what}": other - pattern
        for one in SCALED_METHODS
        if (other := published(found.own.data, first, one)) is not None
        and (pattern := published(found.own.data, MODIFIED, one)) is not None
    }
    paper |= _over_methods(paper, what)
    return Finding(
        leave_out_seeds(rows, statistics, paper=paper),
        seeds_figure(rows, "MIG of every restart, equal strengths."),
        _remarks(found.remark, _strengths(found.own, SCALED_METHODS), split_remark(found)),
    )


def noise_at_its_best(table: pd.DataFrame) -> Finding | None:
    """ZIE-N2: the same with every version at its own best strength."""
    return _between_best(table, NOISE, MODIFIED, "noise less pattern")


def original_at_its_best(table: pd.DataFrame) -> Finding | None:
    """ZIE-B1: MIG on the original less MIG with the pattern, each at its own best strength."""
    return _between_best(table, ORIGINAL, MODIFIED, "original less pattern")


def _between_best(table: pd.DataFrame, first: str, second: str, what: str) -> Finding | None:
    found = models(table, ON_DSPRITES, VERSIONS, SCALED_METHODS)
    if found is None or not _scaled(found):
        return None

    def statistics(rows: pd.DataFrame) -> Mapping[str, float]:
        mean, told = _means(rows), {}
        for one in SCALED_METHODS:
            parts = {version: mean(version, one) for version in (first, second)}
            told[f"{one}: {what}"] = parts[first] - parts[second]
            told |= {f"{one}: MIG, {version}": value for version, value in parts.items()}
        return told | _over_methods(told, what)

    judged = _judged(found)
    if judged.empty:  # one seed alone, for which no other can choose
        return None
    best = Models(found.own, _at_best_scales(found), found.remark)
    return Finding(
        of_halves(leave_out_seeds(judged, statistics)),
        seeds_figure(best.rows, "MIG of every restart, best strengths."),
        _remarks(found.remark, _best_words(found), split_remark(best, None)),
    )


def recovered_by_tuning(table: pd.DataFrame) -> Finding | None:
    """ZIE-T2b: β-VAE on dSprites with noise, at the β that is best there."""
    found = models(table, ON_DSPRITES, (ORIGINAL, NOISE), ("beta_vae",))
    if found is None or not _scaled(found):
        return None

    chosen = at_best(_part(found.rows, NOISE, "beta_vae")).assign(scale="best")
    judged = pd.concat([found.rows, chosen], ignore_index=True)

    def statistics(rows: pd.DataFrame) -> Mapping[str, float]:
        best = mean_mig(rows.loc[rows["scale"] == "best"])
        stated = _mean(rows, NOISE, "beta_vae")
        original = _mean(rows, ORIGINAL, "beta_vae")
        return {
            "MIG with noise, best beta": best,
            "MIG with noise, stated beta": stated,
            "gain of tuning beta": best - stated,
            "share of the original's MIG at the stated beta": best / original,
        }

    printed = published(found.own.data, NOISE, "beta_vae")
    paper = {"MIG with noise, best beta": BEST_ON_NOISE[0]}
    if printed is not None:
        paper |= {"MIG with noise, stated beta": printed, "gain of tuning beta": 0.14}
        paper["share of the original's MIG at the stated beta"] = 1.0
    rows = found.rows
    shown = {"x": rows["strength"], "y": rows["mig"], "group": rows["version"]}
    return Finding(
        of_halves(
            leave_out_seeds(judged, statistics, paper=paper if printed is not None else None)
        ),
        Exhibit(
            "violins",
            pd.DataFrame(shown),
            "beta",
            "MIG",
            "MIG of every restart by beta, on the original and with noise.",
        ),
        _remarks(found.remark, f"Best beta with noise: {_best_of(found, NOISE, 'beta_vae')}."),
    )


def _means(rows: pd.DataFrame) -> Callable[[str, str], float]:
    """Mean MIG of a version and method, NaN of no models."""
    groups = zip(rows["version"], rows["objective"], strict=True)
    found: dict[tuple[str, str], list[float]] = {}
    for group, value in zip(groups, rows["mig"].tolist(), strict=True):
        found.setdefault(group, []).append(value)
    return lambda *group: float(np.mean(found[group])) if group in found else math.nan


def _mean(rows: pd.DataFrame, version: str, method: str) -> float:
    """Mean MIG at the stated strength."""
    own = _part(rows, version, method)
    return float(own.loc[own["scale"] == 1.0, "mig"].mean())


def _part(rows: pd.DataFrame, version: str, method: str) -> pd.DataFrame:
    return rows.loc[(rows["version"] == version) & (rows["objective"] == method)]


def _scaled(found: Models) -> bool:
    """Whether every version and method that is there has more than one strength."""
    rows = found.rows.loc[found.rows["objective"].isin(SCALED_METHODS)]
    return bool((rows.groupby(["version", "objective"])["scale"].nunique() > 1).all())


def _judged(found: Models) -> pd.DataFrame:
    """Models of every version and method, seeds at the scale that others chose."""
    groups = found.rows.groupby(["version", "objective"], sort=False)
    return pd.concat([at_best(part) for _, part in groups], ignore_index=True)


def _at_best_scales(found: Models) -> pd.DataFrame:
    """Models of every version and method at the scale that is best there."""
    groups = found.rows.groupby(["version", "objective"], sort=False)
    parts = [part.loc[part["scale"] == best_scale(part)] for _, part in groups]
    return pd.concat(parts, ignore_index=True)


def _best_of(found: Models, version: str, method: str) -> str:
    return strength_words(found.own, method, best_scale(found.of(version, method)))


def _best_words(found: Models) -> str:
    each = [
        f"{method}, {version}: {_best_of(found, version, method)}"
        for method in SCALED_METHODS
        for version in VERSIONS
        if len(found.of(version, method))
    ]
    return f"Best strengths: {'; '.join(each)}."


def _strengths(own: Originals, methods: Sequence[str]) -> str:
    told = [f"{one} {words}" for one in methods if (words := strength_words(own, one))]
    return f"At {', '.join(told)}; epsilon {own.epsilon:g}." if told else ""


def _remarks(*parts: str) -> str:
    return " ".join(filter(None, parts))


def seeds_figure(rows: pd.DataFrame, caption: str) -> Exhibit:
    """Every model as a dot: methods side by side, versions in colours."""
    places = {name: place for place, name in enumerate((*METHODS, *VERSIONS))}
    # By version first: colours are given out, and stand in a slot, in the order of the rows.
    ordered = rows.sort_values(
        ["version", "objective"], key=lambda names: names.map(places), kind="stable"
    )
    shown = {"x": ordered["objective"], "y": ordered["mig"], "group": ordered["version"]}
    return Exhibit("violins", pd.DataFrame(shown), "method", "MIG", caption)


ANALYSES: Mapping[str, Analysis] = {
    "ZIE-T1a": loss(ON_DSPRITES, ("ae",), MODIFIED),
    "ZIE-T1b": loss(ON_DSPRITES, ("beta_vae",), MODIFIED),
    "ZIE-T1c": loss(ON_DSPRITES, ("beta_tcvae",), MODIFIED),
    "ZIE-T1d": loss(ON_DSPRITES, ("factor_vae",), MODIFIED),
    "ZIE-T1e": loss(ON_SHAPES, ("beta_vae",), MODIFIED),
    "ZIE-T1f": loss(ON_SHAPES, ("beta_tcvae", "factor_vae", "ae"), MODIFIED),
    "ZIE-T2a": loss(ON_DSPRITES, SCALED_METHODS, NOISE),
    "ZIE-T2b": recovered_by_tuning,
    "ZIE-T2c": loss(ON_SHAPES, SCALED_METHODS, NOISE),
    "ZIE-N1": noise_at_equal_strength,
    "ZIE-N3": noise_at_equal_strength,
    "ZIE-N2": noise_at_its_best,
    "ZIE-B1": original_at_its_best,
}
