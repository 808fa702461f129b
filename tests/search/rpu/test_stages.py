# SPDX-License-Identifier: Apache-2.0
"""Stages: the folder of each kind, whose labels cut a leaf's part out, the row of the summary."""

from __future__ import annotations

from unbraid.search.rpu.stages import ROOT, Stage, StageKind, planned_stages


def test_a_leaf_is_cut_out_by_the_labels_of_the_level_before() -> None:
    first, second = planned_stages(2, 3, [])[3:]
    assert (first.name, first.source, first.rank) == ("leaf-1/level-2", ROOT, 1)
    assert (second.name, second.source, second.rank) == ("leaf-1/level-3", first, 0)


def test_every_stage_has_a_folder_of_its_own() -> None:
    stages = planned_stages(3, 4, [0, 1, 2, 3])
    assert len(stages) == 1 + 3 * 3 + 4
    assert len({stage.name for stage in stages}) == len(stages)


def test_a_score_that_is_missing_is_none_in_the_summary() -> None:
    ended = Stage(StageKind.LEAF, leaf=0, level=2, ended="why")
    row = {"name": "leaf-0/level-2", "images": 0, "score": None, "active": [], "ended": "why"}
    assert ended.record() == row
    done = Stage(StageKind.ROOT, images=80, score=0.8, active=(0, 2))
    assert done.record() == {
        **{"name": "root", "images": 80, "score": 0.8, "active": [0, 2]},
        "ended": "",
    }
