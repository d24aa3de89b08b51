"""TurnWise: each decision of a streaming-video policy gets its own advantage, and the loss weighs each decision equally."""

__version__ = "0.1.0"
