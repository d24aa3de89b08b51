"""The embedded world: scene scripts rendered to real video files, with episodes and small benchmarks.

Left out: sound, several objects at a time, anything that a one-million-parameter policy cannot see in a 56-pixel frame.
"""

from turnwise.worlds.build import build
from turnwise.worlds.scripted import Who, scripted

__all__ = ["Who", "build", "scripted"]
