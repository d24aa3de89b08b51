"""Supervised warm-up and reinforcement learning."""
