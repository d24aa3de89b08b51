"""Attention to a past of grouped heads: the formula, and no copy of the past, in both forms."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from turnwise.policy.attention import grouped_attention, stacked


def grouped(query, key, value, mask, scaling):
    return grouped_attention(torch.nn.Identity(), query, key, value, mask, scaling=scaling)[0].transpose(1, 2)


def parts(rows, heads, group, length, past):
    """Random query, key, value, and a mask that hides the last tokens from the first and more of some rows."""
    generator = torch.Generator().manual_seed(rows + 10 * length)
    draw = partial(torch.randn, generator=generator)
    ends = torch.arange(rows)[:, None] % past + torch.arange(length) + 1
    hidden = torch.arange(past + length) >= ends[..., None]
    mask = torch.zeros(hidden.shape).masked_fill(hidden, float("-inf"))[:, None]
    query = draw(rows, length, heads * group, 8).transpose(1, 2)
    return query, draw(rows, heads, past + length, 8), draw(rows, heads, past + length, 8), mask


@pytest.mark.parametrize("way", [grouped, stacked])
@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 4), st.integers(1, 5), st.integers(1, 9))
@settings(max_examples=50)
def test_each_head_reads_the_keys_of_its_group(way, rows, heads, group, length, past):
    query, key, value, mask = parts(rows, heads, group, length, past)
    found = way(query, key, value, mask, 0.3)
    for head in range(heads * group):
        scores = query[:, head] @ key[:, head // group].transpose(1, 2) * 0.3 + mask[:, 0]
        torch.testing.assert_close(found[:, head], scores.softmax(-1) @ value[:, head // group])


class Largest(TorchDispatchMode):
    """The largest tensor that an operation allocated."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        made = operation(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple) else (made,):
            if isinstance(tensor, torch.Tensor) and tensor._base is None and not operation.is_view:
                self.numbers = max(self.numbers, tensor.numel())
        return made


@pytest.mark.parametrize("way", [grouped, stacked])
def test_the_past_is_not_copied(way):
    query, key, value, mask = parts(2, 2, 4, 3, 2000)
    with Largest() as largest:
        way(query, key, value, mask, 0.3)
    assert 0 < largest.numbers <= mask.numel() * 4 < key.numel()
