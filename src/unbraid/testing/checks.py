# SPDX-License-Identifier: Apache-2.0
"""What the contracts share: the description that tables and docs print, and what is refused."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unbraid.core.errors import InputError
from unbraid.core.registry import Citation


def check_description(name: str, thing: Any, *, labelled: bool = True) -> None:
    """Assert that *thing*, a class or function, has a citation, a label and a first sentence.

    A class must also be a frozen dataclass, so that plans can compare, store and rebuild it.
    """
    if isinstance(thing, type):
        assert dataclasses.is_dataclass(thing), f"{name} must be a dataclass"
        assert thing.__dataclass_params__.frozen, f"{name} must be frozen"  # type: ignore[attr-defined]
    assert isinstance(getattr(thing, "citation", None), Citation), f"{name} needs a Citation"
    assert getattr(thing, "label", "") or not labelled, f"{name} needs a label"
    # Its own: a docstring is inherited, and a dataclass without one gets its signature for one.
    own = thing.__dict__.get("__doc__") if isinstance(thing, type) else thing.__doc__
    first = inspect.cleandoc(own or "").split("\n\n")[0]
    assert first.endswith("."), (
        f"{name} needs a docstring whose first paragraph is one sentence for the tables, not"
        f" {first!r}"
    )


def check_test_file(file: Path) -> None:
    """Assert that what is registered has a test file of its own."""
    assert file.is_file(), (
        f"{file} is missing: write it, with a closed form or a golden number and where it is from"
    )


def refusal(call: Callable[[], object]) -> str:
    """The message of the `InputError` that *call* raises, or nothing where it raises none."""
    try:
        call()
    except InputError as error:
        return str(error)
    return ""
