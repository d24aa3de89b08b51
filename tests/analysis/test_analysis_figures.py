"""What the charts are made of."""

import json

import numpy as np
import pyarrow as pa
from analysis_experiment import params_with
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from turnwise.analysis.analyze import alpha_sweep
from turnwise.analysis.comparing import curves
from turnwise.analysis.figures import COLUMNS, advantages, hexagons, repeats
from turnwise.analysis.vega import LIGHT, draw, on_paper, picture

PLACES = arrays(np.float64, 30, elements=st.floats(-2, 2))


@given(PLACES, PLACES)
def test_a_point_is_counted_in_the_hexagon_it_lies_in(x, y):
    cells = hexagons(x, y, 2.0)
    assert sum(cell["decisions"] for cell in cells) == len(x)
    across = 4 / COLUMNS
    for left, top in zip(x, y, strict=True):
        nearest = min(np.hypot(cell["x"] - left, cell["y"] - top) for cell in cells)
        assert nearest <= across / np.sqrt(3) + 1e-3, "no centre within a hexagon's radius"


def test_advantages_shade_flips_and_survive_no_decisions():
    kinds = {"live": pa.bool_(), "advantage_global": pa.float64(), "advantage_turn": pa.float64()}
    table = pa.table({name: pa.array([], kind) for name, kind in kinds.items()})
    spec = advantages(table, None)
    assert all(corner["x"] * corner["y"] <= 0 for corner in spec["layer"][0]["data"]["values"])
    assert "no decisions" in picture("empty", spec)


def test_repeats_stack_to_one():
    counts = {
        "replies": 8,
        "negative_global_count": 5,
        "zero_global_count": 1,
        "negative_turn_count": 8,
        "zero_turn_count": 0,
    }
    bars = repeats(counts, {"negative_global": 0.757, "negative_turn": 0.816})["layer"][0]["data"]["values"]
    assert [(bar["replies"], bar["left"], bar["right"]) for bar in bars[:3]] == [
        (5, 0, 0.625),
        (1, 0.625, 0.75),
        (2, 0.75, 1),
    ]
    assert [bar["share"] for bar in bars[3:]] == [1, 0, 0]


def test_curves_band_from_lowest_to_highest_seed_where_all_were_measured():
    def seed(*levels):
        return {"update": np.arange(1, 4), "reward": np.array(levels)}

    spec = curves({"grpo": {0: seed(1.0, np.nan, 3.0), 1: seed(2.0, 2.0, 5.0)}}, {"reward": "Reward"})
    rows = [[row[name] for name in ("update", "mean", "low", "high", "few")] for row in spec["data"]["values"]]
    assert rows == [[1, 1.5, 1.0, 2.0, True], [3, 4.0, 3.0, 5.0, True]]


def test_an_alpha_sweep_is_of_arms_that_differ_in_nothing_else():
    assert alpha_sweep(params_with()) == {}
    half = {"credit": "turnwise", "alpha": 0.5}
    arms = {"grpo": {"credit": "grpo"}, "half": half, "clipped": {**half, "clip_low": 0.1}, "other": {"credit": "gdpo"}}
    found = alpha_sweep(params_with(arms=arms))
    assert found == {"grpo": (0.0, "seq-mean-token-mean"), "half": (0.5, "seq-mean-token-mean")}


def test_files_have_the_light_theme_and_pages_their_own(tmp_path):
    spec = repeats({"replies": 0, **{f"{s}_{r}_count": 0 for s in ("negative", "zero") for r in ("global", "turn")}},
                   {"negative_global": 0.7, "negative_turn": 0.8})  # fmt: skip
    draw(spec, tmp_path / "repeats")
    assert "var(--" not in (tmp_path / "repeats.svg").read_text()
    assert json.loads((tmp_path / "repeats.vl.json").read_text()) == spec
    assert "var(--ink)" in picture("repeats", spec)
    assert on_paper("var(--window-edge)") == LIGHT["window-edge"]
