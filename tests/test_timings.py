"""Lines of timings: booked whole, read strictly."""

import pytest

from turnwise.errors import UserError
from turnwise.timings import book, read_lines


def test_lines_come_back_in_order(tmp_path):
    lines = [{"update": 1, "rollout": 0.5, "total": 1.0}, {"seconds": 9.0, "peak_mb": 700.0, "pid": 1}]
    for line in lines:
        book(tmp_path / "rl/grpo-0.jsonl", line)
    assert read_lines(tmp_path / "rl/grpo-0.jsonl") == lines
    assert [path.name for path in (tmp_path / "rl").iterdir()] == ["grpo-0.jsonl"]


@pytest.mark.parametrize(
    "line", ['{"seconds": 9.0, "pea', "{}", "7", '{"seconds": "9", "peak_mb": 1}', '{"update": 1, "total": NaN}', ""]
)
def test_a_line_that_is_none_is_named(tmp_path, line):
    path = tmp_path / "0.jsonl"
    path.write_text(f'{{"seconds": 1.0, "peak_mb": 2.0}}\n{line}\n')
    with pytest.raises(UserError, match=r"0\.jsonl:2: no line of timings; delete it"):
        read_lines(path)


def test_bytes_that_are_no_text_are_named(tmp_path):
    (tmp_path / "0.jsonl").write_bytes(b"\xff")
    with pytest.raises(UserError, match="not UTF-8 at byte 0"):
        read_lines(tmp_path / "0.jsonl")
