"""Benchmarks of streaming video, scored as the field scores them: ProactiveVideoQA, OVO-Bench and its timing, StreamingBench.

`evaluation` runs and scores a policy for the ablation; `scoring` scores predictions that anyone made.
"""
