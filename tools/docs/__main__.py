# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.docs` writes the generated docs; `--check` only names what is stale."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.docs import DocsError
from tools.docs.generate import stale, write

ROOT = Path(__file__).resolve().parents[2]


def main(words: list[str] | None = None, root: Path = ROOT) -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, name stale files")
    given = parser.parse_args(words)
    try:
        found = stale(root)
    except DocsError as error:
        print(error, file=sys.stderr)
        return 1
    if given.check:
        for file, why in found.items():
            print(f"{file} {why}", file=sys.stderr)
        if found:
            print("Fix with: make docs", file=sys.stderr)
        return 1 if found else 0
    write(root)
    print("\n".join(map(str, found)) or "The docs are up to date.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
