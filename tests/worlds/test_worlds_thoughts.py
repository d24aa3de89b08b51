from turnwise.episodes import read_demonstrations
from turnwise.worlds import build


def test_thoughts_say_what_is_to_be_seen_and_change_nothing_else(smallest, stream, tmp_path):
    for name, thoughts in (("without", False), ("with", True)):
        build(smallest.model_copy(update={"thoughts": thoughts}), stream, tmp_path / name)
    for file in ("captions.jsonl", "demonstrations.jsonl"):
        assert "thoughts" not in (tmp_path / "without" / file).read_text()
        plain, thinking = (read_demonstrations(tmp_path / name / file) for name in ("without", "with"))
        assert [one.model_copy(update={"thoughts": ()}) for one in thinking] == plain
        assert all(len(one.thoughts) == one.episode.turns for one in thinking)
    demonstration = thinking[0]
    for time, thought in zip(demonstration.episode.grid.times, demonstration.thoughts, strict=True):
        shown = [w.text for w in demonstration.episode.windows if w.related[0] <= time <= w.related[1]]
        assert thought == (f"I see {shown[-1]}." if shown else "I see nothing.")
