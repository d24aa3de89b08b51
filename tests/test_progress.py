import json

from turnwise.progress import Bar


def test_off_a_terminal_progress_is_json_lines_with_the_last_one_always_there(capsys):
    with Bar("rollout", 3, every=100) as bar:
        for n in range(3):
            bar.advance(reward=float(n))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["event"], line["label"], line["done"], line["total"], line["reward"]) for line in lines] == [
        ("progress", "rollout", 1, 3, 0.0),
        ("progress", "rollout", 3, 3, 2.0),
    ]
