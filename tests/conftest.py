"""Hypothesis examples are timed by nobody: shared machines pause."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
