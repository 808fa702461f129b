# SPDX-License-Identifier: Apache-2.0
"""What is known beside images: one file per kind of supervision, one line here."""

import importlib
from typing import Any

from unbraid.core.registry import Registry

SUPERVISIONS = Registry(
    "supervision",
    "unbraid.supervisions",
    {
        "labels": "unbraid.objectives.supervision.few_labels:FewLabels",
        "pairs": "unbraid.objectives.supervision.pairs:Pairs",
    },
    "unbraid.objectives.supervision.supervision:Supervision",
)


def __getattr__(attribute: str) -> Any:
    """`FewLabels`, `Pairs` and the base class without importing torch for those who never ask."""
    if attribute == "Supervision":
        return importlib.import_module(f"{__name__}.supervision").Supervision
    name = SUPERVISIONS.attribute_home(attribute)
    if name is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{attribute}'")
    return SUPERVISIONS.load(name)
