# SPDX-License-Identifier: Apache-2.0
"""Packed bytes by hand, and which weights may be float16; test_network_script reads them back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unbraid.report.explore.container import pack
from unbraid.report.explore.network_record import compact


def test_a_file_by_hand():
    arrays = {
        "odd": np.array([1, 2, 3], np.uint8),
        "swapped": np.array([[1.5], [-2.0]], ">f4"),
        "turned": np.arange(6, dtype=np.int32).reshape(2, 3).T,
    }
    packed = pack({"member": 3}, arrays)
    length = int.from_bytes(packed[:4], "little")
    data = packed[4 + length :]
    assert (4 + length) % 8 == len(data) % 8 == 0
    assert json.loads(packed[4 : 4 + length]) == {
        "record": {"member": 3},
        "arrays": {
            "odd": {"dtype": "uint8", "shape": [3], "at": 0},
            "swapped": {"dtype": "float32", "shape": [2, 1], "at": 8},
            "turned": {"dtype": "int32", "shape": [3, 2], "at": 16},
        },
    }
    assert data[:8] == bytes([1, 2, 3, 0, 0, 0, 0, 0])
    assert np.frombuffer(data[8:16], "<f4").tolist() == [1.5, -2.0]
    assert np.frombuffer(data[16:], "<i4").tolist() == [0, 3, 1, 4, 2, 5]


def test_nothing_to_pack():
    packed = pack(None, {})
    assert json.loads(packed[4:]) == {"record": None, "arrays": {}}
    assert len(packed) % 8 == 0


def test_what_a_page_cannot_read_is_refused(refused):
    with pytest.raises(ValueError, match="JSON compliant"):
        pack({"loss": float("nan")}, {})
    rule = "must hold float32, float16, uint8 or int32"
    assert refused(pack, {}, {"codes": np.zeros(2)}) == [("array codes", rule, "float64")]


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([[0.1, -3.0], [2e-3, 59_000.0]], "float16"),
        ([[0.0, 0.0]], "float16"),
        ([[0.1, 61_000.0]], "float32"),
        ([[1.0, float("nan")]], "float32"),
        ([[3e-8, 1.2e-7], [1e-9, 2e-8]], "float32"),
        ([[1.0, 2e-7], [1.0, 3e-8]], "float16"),  # beside the other output it is nothing
        ([[1.0, 2e-5], [1.0, 3e-8]], "float16"),
    ],
)
def test_float16_only_where_it_is_precise_enough(values, kept):
    weight = np.array(values, np.float32)
    assert compact(weight).dtype == kept
    assert compact(weight[:, None]).dtype == kept
