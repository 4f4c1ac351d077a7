"""Codec: what goes in comes out, and a stranger is named."""

import json

import pytest

from day0.ir.codec import decode, encode
from day0.ir.tensor import TensorSpec
from day0.ir.weight import Leaf, Pick

TYPES = {kind.__name__: kind for kind in (Leaf, Pick, TensorSpec)}


def test_round_trip_through_json():
    leaf = Leaf(name="a", dims=(4, 2), parts=(("data", "a"), ("scale", "a_scale")))
    value = Pick(of=leaf, dim=0, period=4, start=1, stop=3)
    data = json.loads(json.dumps(encode(value)))
    assert data["type"] == "Pick"
    assert "format" not in data["of"]  # at its default
    assert decode(data, TYPES) == value


def test_unknown_types_and_fields_are_named():
    with pytest.raises(ValueError, match="unknown type 'Nobody'"):
        decode({"type": "Nobody"}, TYPES)
    with pytest.raises(ValueError, match="TensorSpec"):
        decode({"type": "TensorSpec", "dims": [1], "colour": 2}, TYPES)
