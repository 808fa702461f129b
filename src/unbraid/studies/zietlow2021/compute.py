# SPDX-License-Identifier: Apache-2.0
"""Makes computed.json: what the study says without training its pools, in minutes on a CPU.

    python -m unbraid.studies.zietlow2021.compute

The bound on all images of dSprites, an independent s beside its factors in the four ways to fill in
what the paper leaves open, and the toy of figure 1b on restarts with seeds of its own. A test makes
parts of it again.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.files import make_folder, remove_folder
from unbraid.core.store import write_json
from unbraid.studies.zietlow2021.computed import FILE

BOUNDS = (0.05, 0.1, 0.2)
"""Values of ε whose bound is checked on every image."""
TOY_SEED, TOY_RESTARTS = 1_000, 6
"""Others than the gallery's, at which the toy was set up."""


def bound(epsilon: float, folder: Path, images: int | None = None) -> dict[str, Any]:
    """The largest change of a value over *images* of dSprites, by default all, and how many of
    them have other factors.

    s is the place along the diagonal: the bound holds whatever moves the pattern. The data lie in
    *folder* meanwhile.
    """
    from unbraid.analysis.perturbation.effect import max_norm
    from unbraid.data import load
    from unbraid.data.perturbed.by_pattern import write_by_pattern
    from unbraid.data.perturbed.dataset import Perturbed
    from unbraid.data.perturbed.pattern import standardised

    base = load("dsprites")
    factors = base.factors(np.arange(len(base)))
    s, _, _ = standardised(factors[:, -2:].sum(axis=1))
    place = folder / f"bound-{epsilon:g}"
    make_folder(place)
    write_by_pattern(place, base, s, epsilon=epsilon, provenance={"latent": "x + y"})
    data = Perturbed(place, base)
    largest, among = max_norm(data, images or len(base))
    other = int((data.factors(np.arange(len(base))) != factors).any(axis=1).sum())
    remove_folder(place)
    return {"epsilon": epsilon, "images": among, "largest": largest, "other_factors": other}


def variants() -> list[dict[str, Any]]:
    """Where s passes position, clipped or not, with 4 rows or 1 for each step of s."""
    from unbraid.analysis.perturbation.epsilon_sweep import epsilon_sweep
    from unbraid.analysis.perturbation.expansiveness import expansiveness
    from unbraid.data import load

    data = load("dsprites")
    factors, found = expansiveness(data), []
    for clip, rows in product((True, False), (4.0, 1.0)):
        one = epsilon_sweep(data, rows_per_step=rows, clip=clip, factors=factors)
        found.append(
            {
                "clip": clip,
                "rows_per_step": rows,
                "factors": list(factors.factors),
                "local": one.crossings.local.tolist(),
                "overall": one.crossings.overall.tolist(),
                "lines": {what: one.lines(what).to_dict("list") for what in ("local", "overall")},
            }
        )
    return found


def toy(seed: int = TOY_SEED, restarts: int = TOY_RESTARTS) -> dict[str, Any]:
    """Figure 1b: linear VAEs beside PCA, and networks on a ripple that only local axes see."""
    from unbraid.analysis.theory.local_axes import local_axes
    from unbraid.analysis.theory.pca_alignment import pca_alignment

    linear = pca_alignment(restarts=restarts, seed=seed)
    found = local_axes(restarts=restarts, seed=seed)
    return {
        "linear_cosines": [float(one.cosines.min()) for one in linear.distinct],
        "predicted": found.predicted_degrees,
        "pca": found.pca_degrees,
        "degrees": {
            kind: [one.degrees for one in getattr(found, kind)] for kind in ("rippled", "flat")
        },
    }


def main() -> None:
    """Compute all of it and write the file."""
    began = time.monotonic()
    found = {
        "bounds": [bound(epsilon, Path(".computing")) for epsilon in BOUNDS],
        "variants": variants(),
        "toy": toy(),
        "made": {"numpy": np.__version__, "date": datetime.now(UTC).date().isoformat()},
    }
    found["made"]["seconds"] = round(time.monotonic() - began)
    write_json(FILE, found)
    print(f"{FILE}: {found['made']['seconds']} s")


if __name__ == "__main__":
    main()
