# SPDX-License-Identifier: Apache-2.0
"""The examples do what their first lines say."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import unbraid as ub
from unbraid.networks import NETWORKS
from unbraid.testing.network_contract import check_network

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def own_network() -> Iterator[ModuleType]:
    """The example as a module; what it registers is taken back."""
    spec = importlib.util.spec_from_file_location(
        "own_network_example", EXAMPLES / "own_network.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]
    NETWORKS._registered.clear()
    NETWORKS.__dict__.pop("_all", None)


def test_own_network_trains_and_is_found_again(
    own_network: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    check_network("residual", (1, 32, 32))
    own_network.main(str(tmp_path / "run"), steps=100)
    said = capsys.readouterr().out
    assert "codes of four images:" in said
    run = ub.open_run(tmp_path / "run")
    assert run.folder.plan.network == "residual"
    assert run.folder.plan.network_options == {"width": 16}
    weights = run.folder.member_weights(0)
    assert weights["encoder.body.2.body.1.running_mean"].abs().max() > 0, (
        "training leaves batch norm's running means"
    )
    images = run.dataset.images(range(3))
    codes = run.model(0).encode(images)
    # Outside training batch norm uses its running means: an image's code does not depend on its
    # neighbours.
    assert np.allclose(codes[:1], run.model(0).encode(images[:1]), rtol=1e-4, atol=1e-6)
    # Another process, which has not registered it.
    NETWORKS._registered.clear()
    NETWORKS.__dict__.pop("_all", None)
    with pytest.raises(ub.InputError, match=r"network 'residual' .*unknown"):
        ub.open_run(tmp_path / "run").model(0)


@pytest.mark.slow
def test_own_network_runs_as_it_is_called(tmp_path: Path):
    command = [sys.executable, str(EXAMPLES / "own_network.py"), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "codes of four images:" in done.stdout
    told = "import unbraid as ub; ub.open_run(" + repr(str(tmp_path / "run")) + ").model(0)"
    other = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=False
    )
    assert "network 'residual'" in other.stderr
