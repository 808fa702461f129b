# SPDX-License-Identifier: Apache-2.0
"""What every metric scores on standard codes, for docs/metrics; tests compute it again.

python benchmarks/metric_behaviour.py [--out benchmarks/results] [names ...]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from unbraid.metrics import METRICS
from unbraid.testing.standard_codes import KINDS, behaviour


def main() -> None:
    """Compute the named metrics anew, all of them when none is named, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="metrics to compute anew; all when left out")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("benchmarks/results"),
        help="folder of metric_behaviour.json",
    )
    given = parser.parse_args()
    file = given.out / "metric_behaviour.json"
    known = json.loads(file.read_text("utf-8"))["scores"] if file.exists() else {}
    for name in given.names or METRICS.built_in:
        known[name] = behaviour(name)
        print(f"{name:<26}" + "".join(f"{known[name][kind]:>11.4g}" for kind in KINDS), flush=True)
    record = {
        "command": "python benchmarks/metric_behaviour.py",
        "scores": {n: known[n] for n in METRICS.built_in if n in known},
    }
    given.out.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    print(f"{'':<26}" + "".join(f"{kind:>11}" for kind in KINDS))


if __name__ == "__main__":
    main()
