import time

import pytest

from turnwise.training.guards import SIGNS, Watchdog, explain, warnings_of

HEALTHY = {"reply_rate": 0.2, "repeat_share": 0.1, "zero_spread_share": 0.0, "entropy": 0.5}


@pytest.mark.parametrize(
    ("figure", "value", "expected"),
    [
        ("reply_rate", 0.0, ["silence"]),
        ("reply_rate", 0.95, ["chatter"]),
        ("repeat_share", 0.9, ["repetition"]),
        ("repeat_share", None, []),
        ("zero_spread_share", 1.0, ["no_spread"]),
        ("zero_spread_share", 0.75, []),
        ("entropy", 0.001, ["entropy"]),
    ],
)
def test_a_collapse_has_a_name(figure, value, expected):
    assert warnings_of(HEALTHY) == []
    figures = HEALTHY | {figure: value}
    assert warnings_of(figures) == expected
    for name in expected:
        assert explain(name, figures).startswith(f"{name}: {figure} ")
    assert set(expected) <= SIGNS.keys()


def test_the_watchdog_shows_where_a_slow_block_stands(tmp_path):
    def stuck_here():
        time.sleep(0.5)

    path = tmp_path / "stacks"
    with path.open("w") as out:
        dog = Watchdog(least=0.05, out=out)
        with dog.watch():
            time.sleep(0.2)  # the first block has nothing to be compared with
        for _ in range(3):
            with dog.watch():
                pass
        assert not path.read_text()
        with dog.watch():
            stuck_here()
    said = path.read_text()
    assert said.startswith("Timeout")
    assert "stuck_here" in said
