# SPDX-License-Identifier: Apache-2.0
"""The page of objectives: every option explained, what goes with what, and tables of what was
measured.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from unbraid import objective_pages
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.priors import PRIORS
from unbraid.testing.prior_contract import check_prior

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"


@pytest.mark.parametrize("registry", [OBJECTIVES, PRIORS], ids=["objectives", "priors"])
def test_every_option_of_everything_is_explained(registry):
    page = objective_pages.pages(registry)
    for name in registry.built_in:
        section = page.split(f"### `{name}`\n")[1].split("\n### ")[0]
        kind = registry.load(name)
        assert str(kind.citation) in section
        for item in dataclasses.fields(kind):
            assert f"| `{item.name}` | " in section
            assert item.metadata["help"].replace("|", "\\|") in section


def test_options_by_hand():
    page = objective_pages.pages(OBJECTIVES)
    assert "| `beta` | 4 | at least 0 | weight of the KL divergence |" in page
    assert "| `divergence` | kl_inclusive | kl_inclusive, mmd, mmd_joint |" in page
    assert "| `importance_samples` | 5 | whole, at least 1" in page
    assert "| `variances` | pca | numbers, above 0, or pca |" in objective_pages.pages(PRIORS)


def test_compositions_are_what_objectives_refuse():
    lines = objective_pages.compositions().splitlines()
    assert lines[0] == f"| | {' | '.join(f'`{name}`' for name in PRIORS.built_in)} |"
    rows = {
        line.split("`")[1]: [cell.strip() for cell in line.split("|")[2:-1]] for line in lines[2:-2]
    }
    assert list(rows) == list(OBJECTIVES.built_in)
    for name, cells in rows.items():
        refused = [
            bool(OBJECTIVES.load(name)().refuses(PRIORS.load(prior)())) for prior in PRIORS.built_in
        ]
        assert [cell.startswith("no (") for cell in cells] == refused
    assert rows["dip_vae_i"][0] == "yes"
    assert "must have independent latents" in lines[-1]


@pytest.mark.parametrize(
    "name", ["disentangling", "pairs_miniature", "few_labels", "decomposition"]
)
def test_the_committed_results_make_a_table(name: str):
    record = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    table = getattr(objective_pages, name)(record)
    assert table.startswith("| ")
    assert "`" in table.splitlines()[-1] or "`" in table
    assert "nan" not in table


def test_medians_with_the_least_and_the_most():
    row = {
        "data": {"name": "xysquares", "spacing": 8}, "objective": "ada_gvae", "likelihood": "gaussian+box31", "latents": 9,
        "strength": {"beta": 0.01}, "members": 3, "steps": 20_000, "seconds": 12.3, "population": 6, "mig": [0.1, 0.5, 0.3],
        "dci": [0.2, 0.2, 0.8], "device": "GPU", "precision": "bfloat16",
    }  # fmt: skip
    table = objective_pages.disentangling({"rows": [row]})
    assert (
        "| xysquares, spacing 8 | `ada_gvae` | `gaussian+box31` | 9 | beta 0.01 | 3 | 20,000 | 12"
        " (6 members) | **0.300** (0.100 to 0.500) | **0.200** (0.200 to 0.800) |" in table
    )


def test_the_prior_in_the_docs_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = (RESULTS.parents[1] / "docs" / "objectives.md").read_text("utf-8")
    (code,) = [
        block
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if "class Laplace(Prior)" in block
    ]
    monkeypatch.chdir(tmp_path)
    module = ModuleType("code_of_the_docs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(PRIORS.__dict__, "_all", PRIORS._all)
    monkeypatch.setitem(
        PRIORS._registered, "laplace", None
    )  # both are as before when the test is over
    exec(code, module.__dict__)  # our own documentation
    assert module.run.members["status"].tolist() == ["trained", "trained"]
    assert module.run.members["label"].is_unique
    check_prior("laplace")
