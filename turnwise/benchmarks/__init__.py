"""Three benchmarks of streaming video, scored as the field scores them: ProactiveVideoQA, OVO-Timing, StreamingBench."""

from turnwise.benchmarks.evaluation import evaluate

__all__ = ["evaluate"]
