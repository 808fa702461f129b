# SPDX-License-Identifier: Apache-2.0
"""One target under libFuzzer, by atheris: inputs that reach new places of our code are kept.

    python -m tests.fuzz.guided COMMAND TARGET FINDINGS [for libFuzzer: folders, -max_total_time=60]

New inputs are made by the target's own grammar or mutators half of the time, by libFuzzer else.
Findings do not end it: each kind is written to the folder FINDINGS once. COMMAND is a program that
starts this one again with the words behind FINDINGS, which libFuzzer does to merge.
"""

from __future__ import annotations

import random
import re
import resource
import sys
from pathlib import Path

import atheris  # pyright: ignore[reportMissingImports]

with atheris.instrument_imports(include=["unbraid"]):
    from tests.fuzz import cases

from tests.fuzz.child import MOST_MEMORY, finding


def main() -> None:
    """Fuzz until libFuzzer has enough."""
    import torch

    target, findings = cases.ALL[sys.argv[2]], Path(sys.argv[3])
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (4 * MOST_MEMORY, 4 * MOST_MEMORY))
    known: set[str] = set()
    own = cases.kept(target.name)

    def one(content: bytes) -> None:
        _, found = finding(target, content)
        # The same lines of code are the same finding, whatever the values in its message.
        kind = "\n".join(re.findall(r'File ".*", line \d+', found)) or found
        if found and kind not in known:
            known.add(kind)
            (findings / f"{target.name}-{len(known):03d}").write_bytes(content)
            print(f"FOUND by {target.name}: {content[:300]!a}\n{found}", flush=True)

    def another(content: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if not target.changed or chance.random() < 0.5:
            return target.inputs(chance, [content, *own])[:most]
        return atheris.Mutate(content, most)

    atheris.Setup([sys.argv[1], *sys.argv[4:]], one, custom_mutator=another)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
