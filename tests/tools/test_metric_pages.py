# SPDX-License-Identifier: Apache-2.0
"""The page of each metric says what its file says."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from tools.docs import DocsError
from tools.docs.metric_pages import about, fields, names, page, unwrapped
from unbraid.metrics import METRICS

DOCS = Path(__file__).resolve().parents[2] / "docs" / "metrics"


def test_there_is_a_page_for_every_metric_and_no_other():
    pages = {file.stem for file in DOCS.glob("*.md")} - {"README"}
    assert pages == set(METRICS.built_in) == set(names())


@pytest.mark.parametrize("name", list(METRICS.built_in))
def test_a_page_holds_definition_traps_departures_and_everything_a_result_holds(name: str):
    metric = METRICS.load(name)
    text = " ".join((DOCS / f"{name}.md").read_text("utf-8").split())
    words = about(metric)
    for part in (words.title, *words.definition, words.traps[1:], str(metric.citation)):
        assert " ".join(part.split()) in text
    assert " ".join(words.departs.partition(": ")[2][1:].split()) in text
    for item in dataclasses.fields(metric.result):
        assert f"- `{item.name}`" in text


def test_a_file_without_traps_is_refused(monkeypatch: pytest.MonkeyPatch):
    metric = METRICS.load("mig")
    words = "MIG: a gap.\n\nIt is defined.\n\nDeparts from disentanglement_lib: no."
    monkeypatch.setattr(sys.modules[metric.__module__], "__doc__", words)
    with pytest.raises(
        DocsError, match=r"^unbraid\.metrics\.mig must open with one paragraph 'Traps: "
    ):
        about(metric)


def test_fields_of_a_result_come_with_their_descriptions():
    result = METRICS.load("dci").result
    found = fields(result)
    assert next(iter(found)) == "score"
    assert found["score"].startswith("Disentanglement, the part")
    assert set(found) == {"score", *(item.name for item in dataclasses.fields(result))}
    assert found["completeness_per_factor"] == "NaN for a constant factor, as in the next."


def test_a_page_by_hand():
    kinds = ("perfect", "rotated", "duplicated", "missing", "noisy", "warped", "dead")
    text = page("mig", dict.fromkeys(kinds, 0.5) | {"unrelated": 123.4})
    assert "\n# `mig`\n" in text
    assert "\n`mig(codes, factors, *, bins=20)`\n" in text
    assert "\nGiven codes and factors; from 0 to 1, higher is better.\n" in text
    assert "\n| 0.50 | 0.50 | 0.50 | 0.50 | 0.50 | 0.50 | 0.50 | 123 |\n" in text
    assert "(../../src/unbraid/metrics/mig.py)" in text


def test_lists_stay_lists():
    assert unwrapped("one\ntwo:\n- three\n  four\n- five") == "one two:\n- three four\n- five"
    assert "\n- `kl`: " in "\n".join(about(METRICS.load("active_units")).definition)
