# SPDX-License-Identifier: Apache-2.0
"""What `unbraid discover` finds in drawn images whose factors it is not shown.

    python benchmarks/discover.py --data sprites --minutes 15 --out FOLDER
        [--results benchmarks/results/discover.json]

2,000 random images of a set are given without labels; afterwards the codes of every factor found
are compared with the true factors by rank correlation (for hues, from where the code cuts their
circle). Results of several sets are kept side by side in one file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "sprites": ("sprites", {"image_size": 32, "x": 16, "y": 12, "scale": 6, "shape": 3}),
    "dsprites": ("dsprites", {}),
    "shapes3d_drawn": ("shapes3d_drawn", {}),
    "xyobject": ("xyobject", {}),
}

CIRCLES: dict[str, tuple[int, ...]] = {"shapes3d_drawn": (0, 1, 2)}
"""Factors that come round, such as hues. A code must cut the circle somewhere; the correlation is
that from the best cut on.
"""


def correlation(codes: Any, values: Any, size: int, circle: bool) -> float:
    """Size of the rank correlation of a code with a factor of so many values."""
    from scipy.stats import spearmanr

    cuts = range(size) if circle else (0,)
    return max(
        abs(float(spearmanr(codes, (values - cut) % size if circle else values)[0])) for cut in cuts
    )


def main() -> None:
    from unbraid.commands.discover import discover
    from unbraid.data import load
    from unbraid.population.devices import choose_device

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", choices=SETS, default="sprites")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--images", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("discoveries"))
    parser.add_argument("--results", type=Path, default=None)
    given = parser.parse_args()
    chosen = choose_device(given.device)
    name, options = SETS[given.data]
    dataset = load(name, **options)
    picked = np.sort(
        np.random.default_rng(given.seed).choice(len(dataset), given.images, replace=False)
    )
    truth = dataset.factors(picked)
    folder = given.out / f"{given.data}-{given.seed}"
    made = discover(
        dataset.images(picked),
        out=folder,
        minutes=given.minutes,
        seed=given.seed,
        device=given.device,
    )
    sizes = dataset.factor_sizes
    found = []
    for column in made.codes.columns[2:]:
        every = [
            correlation(
                made.codes[column], truth[:, at], sizes[at], at in CIRCLES.get(given.data, ())
            )
            for at in range(len(sizes))
        ]
        best = int(np.nanargmax(every))
        found.append(
            {"title": column, "factor": dataset.factor_names[best], "correlation": every[best]}
        )
    device = f"an {torch.cuda.get_device_name()}" if chosen.type == "cuda" else made.found.device
    row = {
        "data": given.data,
        "images": given.images,
        "seed": given.seed,
        "found": found,
        "udr": made.found.udr,
        "minutes": made.found.minutes,
        "device": device,
        "explained": made.found.explained,
        "models": made.found.population * made.found.models_each,
    }
    print(made.summary())
    if given.results:
        old = json.loads(given.results.read_text("utf-8"))["rows"] if given.results.exists() else []
        same = ("data", "seed", "images", "device")
        rows = [one for one in old if any(one[name] != row[name] for name in same)] + [row]
        given.results.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
    print("factor found                                  follows         rank correlation")
    for one in found:
        print(f"{one['title']:<45} {one['factor']:<15} {one['correlation']:.3f}")


if __name__ == "__main__":
    main()
