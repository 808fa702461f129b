# SPDX-License-Identifier: Apache-2.0
"""The pages of objectives and priors: every option explained, and what goes with what."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tools.docs import objective_pages
from tools.docs.tables import cell
from unbraid.core.registry import Registry
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.priors import PRIORS
from unbraid.objectives.supervision import SUPERVISIONS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_there_is_a_page_for_every_objective_and_no_other():
    pages = {file.stem for file in (DOCS / "objectives").glob("*.md")} - {"README"}
    assert pages == set(OBJECTIVES.built_in)


def explains(text: str, kind: type) -> bool:
    rows = [f"| {cell(item.metadata['help'])} |" for item in dataclasses.fields(kind)]
    names = [f"| `{item.name}` | " for item in dataclasses.fields(kind)]
    return all(part in text for part in (*rows, *names))


@pytest.mark.parametrize("name", list(OBJECTIVES.built_in))
def test_every_option_of_an_objective_is_explained(name: str):
    text, kind = objective_pages.page(name), OBJECTIVES.load(name)
    assert explains(text, kind)
    assert str(kind.citation) in " ".join(text.split())


@pytest.mark.parametrize("registry", [PRIORS, SUPERVISIONS], ids=["priors", "supervision"])
def test_every_option_of_priors_and_supervision_is_explained(registry: Registry):
    text = objective_pages.sections(registry)
    for name in registry.built_in:
        section = text.split(f"### {name}\n")[1].split("\n### ")[0]
        assert explains(section, registry.load(name))
        assert str(registry.load(name).citation) in " ".join(section.split())


def test_options_by_hand():
    page = objective_pages.page
    assert "| `beta` | 4 | at least 0 | weight of the KL divergence |" in page("beta_vae")
    assert "| `divergence` | kl_inclusive | kl_inclusive, mmd, mmd_joint |" in page("decomposition")
    assert "| `importance_samples` | 5 | whole, at least 1" in page("iwae")
    assert "| `variances` | pca | numbers, above 0, or pca |" in objective_pages.sections(PRIORS)
    assert "## Options" not in page("vae")


def test_priors_that_are_refused_are_named_with_the_reason():
    text = objective_pages.page("factor_vae")
    assert "\nIt works with `isotropic`, `anisotropic`, " in text
    assert "\n- Not with `mixture`, `cross`: the prior must have independent latents.\n" in text
    assert "It works with every prior.\n" in objective_pages.page("vae")


def test_compositions_are_what_objectives_refuse():
    lines = objective_pages.compositions().splitlines()
    assert lines[0] == f"|  | {' | '.join(f'`{name}`' for name in PRIORS.built_in)} |"
    rows = {
        line.split("`")[1]: [cell.strip() for cell in line.split("|")[2:-1]]
        for line in lines
        if line.startswith("| [")
    }
    assert list(rows) == list(OBJECTIVES.built_in)
    for name, cells in rows.items():
        objective = OBJECTIVES.load(name)()
        refused = [bool(objective.refuses(PRIORS.load(prior)())) for prior in PRIORS.built_in]
        assert [cell.startswith("no (") for cell in cells] == refused
    assert rows["dip_vae_i"][0] == "yes"
    assert ") must have independent latents" in " ".join(lines)
