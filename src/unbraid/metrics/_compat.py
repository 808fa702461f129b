# SPDX-License-Identifier: Apache-2.0
"""`compat="disentanglement_lib"`: the reference's number where ours departs from it on purpose.

A metric takes the option where the reference computes another *number*. Where it stops with an
error or says NaN there is nothing to give again; the file of the metric says so.
"""

from __future__ import annotations

from typing import Literal

from unbraid.core.errors import InputError, unknown

Compat = Literal["disentanglement_lib"]
REFERENCE = "disentanglement_lib"


def as_reference(compat: str | None) -> bool:
    """Whether the reference's number is asked for; anything but its name or None is refused."""
    if compat is not None and compat != REFERENCE:
        raise InputError(unknown("compat", str(compat), [REFERENCE]))
    return compat == REFERENCE
