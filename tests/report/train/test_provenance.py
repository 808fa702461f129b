# SPDX-License-Identifier: Apache-2.0
"""The call on the page makes the same plan again."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import unbraid as ub
from unbraid.population.plan import Plan, make_plan
from unbraid.report.train.provenance import (
    data_title,
    folder_files,
    following_commands,
    python_call,
)

CASES: list[tuple[Any, dict[str, Any]]] = [
    (ub.BetaVAE(beta=[1, 4, 16]), {"seeds": 3, "steps": 1500, "learning_rate": 1e-3}),
    ("vae", {"seeds": [5], "batch_size": 32, "latents": 3}),
    (
        [ub.BetaVAE(beta=[1, 4]), ub.FactorVAE(gamma=[10, 40])],
        {"learning_rate": [1e-3, 1e-4], "seeds": 2},
    ),
    (
        [ub.BetaVAE(beta=4), ub.BetaVAE(beta=8), "ae"],
        {"precision": "bfloat16", "log_every": 7, "code_samples": 99},
    ),
    (
        ub.DIPVAEI(lambda_od=[1, 2], lambda_d_factor=[5, 10]),
        {"likelihood": "gaussian", "checkpoint_seconds": 1.5},
    ),
    (
        "beta_vae",
        {
            "data_options": {"x": 5, "image_size": 16, "y_range": 0.5},
            "network_options": {"hidden": 24},
        },
    ),
    (
        "vae",
        {"prior": ["isotropic", "sparse:gamma=0.1", ub.Sparse(gamma=[1 / 3, 0.5])], "seeds": 2},
    ),  # type: ignore[attr-defined]
    (
        "vae",
        {
            "prior": "pca_learned",
            "latents": 2,
            "data_options": {"x": 3, "y": 3, "scale": 2, "image_size": 16},
        },
    ),
    (
        "vae",
        {"prior": "mixture:variance=0.30000000000000004,radius=linear(1, 2, 50)", "latents": 2},
    ),
    (
        ub.BetaVAE(beta=[1 / 3, "linear(0, 4, 100)"]),
        {"learning_rate": ["cosine(1e-3, 0, 100)", 1e-4], "standardise": True},
    ),
    (ub.BetaVAE(beta=[0.003, "linear(0, 0.003, 10)"]), {"convention": "mean", "seeds": 2}),
    (
        ["qlae", "ada_gvae"],
        {
            "convention": "mean",
            "hyper": {
                "values": [5, 6],
                "quantisation": 0.01,
                "commitment": 0.02,
                "beta": [0.1, 0.01],
            },
            "likelihood": "gaussian+box3",
        },
    ),
]


def executed(call: str, **known: Any) -> Plan:
    """The plan that the call makes when `train` only plans."""
    made = {}

    def train(*arguments: Any, **options: Any) -> None:
        made["plan"] = make_plan(*arguments, **options)[0]

    kinds = ("BetaVAE", "FactorVAE", "AE", "VAE", "DIPVAEI", "QLAE", "AdaGVAE")
    names = {kind: getattr(ub, kind) for kind in kinds}
    exec(
        call.replace("import unbraid as ub", ""),
        {"ub": SimpleNamespace(train=train, **names), **known},
    )
    return made["plan"]


@pytest.mark.parametrize(("objective", "options"), CASES)
def test_the_call_makes_an_equal_plan(objective: Any, options: dict[str, Any]) -> None:
    plan = make_plan("sprites", objective, network="mlp", **options)[0]
    assert executed(python_call(plan)).digest() == plan.digest()
    opened = Plan.from_record(json.loads(json.dumps(plan.record())))
    assert executed(python_call(opened)).digest() == plan.digest()


def test_the_call_for_points_and_for_arrays() -> None:
    plan = make_plan("pinwheel", "beta_vae", network="mlp")[0]
    assert executed(python_call(plan)).digest() == plan.digest()
    array = np.random.default_rng(0).integers(0, 256, (10, 16, 16, 1), dtype=np.uint8)
    plan = make_plan(array, "beta_vae", network="mlp")[0]
    assert executed(python_call(plan), array=array).digest() == plan.digest()


def test_the_call_in_full() -> None:
    plan = make_plan(
        "sprites",
        ub.BetaVAE(beta=[1, 4.5]),
        seeds=3,
        steps=200,
        learning_rate=1e-3,
        data_options={"x": 5},
    )[0]
    assert (
        python_call(plan)
        == "import unbraid as ub\n\nrun = ub.train(\n    'sprites',\n    ub.BetaVAE(beta=[1,"
        " 4.5]),\n    data_options={'x': 5},\n    seeds=3,\n    steps=200,\n   "
        " learning_rate=0.001,\n    precision='float32',\n)"
    )


def test_own_data_is_called_by_its_file(tmp_path: Path) -> None:
    array = np.zeros((4, 16, 16, 1), dtype=np.uint8)
    np.save(tmp_path / "faces.npy", array)
    assert data_title(make_plan(str(tmp_path / "faces.npy"), network="mlp")[0]) == "faces.npy"
    assert data_title(make_plan(array, network="mlp")[0]) == "own images"
    assert data_title(make_plan("pinwheel", network="mlp")[0]) == "pinwheel"


def test_commands_quote_their_path() -> None:
    assert following_commands(Path("runs/a b"), ["mig", "sap"]) == [
        "unbraid score 'runs/a b' --metrics mig,sap",
        "unbraid report 'runs/a b'",
    ]
    assert following_commands(Path("runs/a"), []) == ["unbraid report runs/a"]


def test_files_are_listed_with_their_sizes_and_purposes(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(b"12345")
    (tmp_path / ".lock").write_bytes(b"")
    (tmp_path / "report.html").write_bytes(b"old")
    (tmp_path / "codes").mkdir()
    (tmp_path / "codes" / "a").write_bytes(b"12")
    (tmp_path / "codes" / "b").write_bytes(b"345")
    assert folder_files(tmp_path) == [
        ("codes/", 5, "means and log-variances of the recorded sample"),
        ("plan.json", 5, "everything needed to repeat the run"),
    ]
