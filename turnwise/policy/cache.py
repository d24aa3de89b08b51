"""Keys and values of conversations of different length, with no gap between the tokens of one."""

from typing import Any

import torch
from torch import Tensor


class RaggedCache:
    """What a decoder remembers of B rows: row b's tokens stand at 0..lengths[b]-1, whatever the others say.

    A forward is announced by `open`, which names its rows and gives its mask; the layers then call `update`, and `advance`
    says how many of each row's new tokens were real (none, of one that stands by). Those after them are overwritten by
    the next forward. A forward of all rows reads the past where it lies; one of some rows copies theirs.
    """

    def __init__(self, rows: int, device: torch.device):
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._rows = self._slots = self.lengths[:, None]
        self._end, self._whole = 0, True

    def open(self, rows: Tensor, width: int, dtype: torch.dtype) -> Tensor:
        """Make room for `width` more tokens of `rows` [b]; returns the additive mask [b, 1, width, S]."""
        steps = torch.arange(width, device=rows.device)
        self._rows, self._slots = rows[:, None], self.lengths[rows, None] + steps
        self._end, self._whole = int(self._slots.max()) + 1, len(rows) == len(self.lengths)
        hidden = torch.arange(self._end, device=rows.device) > self._slots[..., None]
        return torch.zeros(hidden.shape, dtype=dtype, device=rows.device).masked_fill(hidden, float("-inf"))[:, None]

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Store new keys and values [b, H, width, D] of a layer; returns all of these rows' [b, H, S, D]."""
        if layer not in self._layers or self._layers[layer][0].shape[2] < self._end:
            self._layers[layer] = (self._grown(layer, keys, 0), self._grown(layer, values, 1))
        return self._write(self._layers[layer][0], keys), self._write(self._layers[layer][1], values)

    def advance(self, counts: Tensor) -> None:
        """Count the real tokens [b] of the last forward."""
        self.lengths[self._rows[:, 0]] += counts

    def keep(self, rows: Tensor) -> None:
        """Forget all rows but these, which become 0..b-1."""
        self.lengths = self.lengths[rows]
        self._layers = {i: (keys[rows], values[rows]) for i, (keys, values) in self._layers.items()}

    def _write(self, stored: Tensor, new: Tensor) -> Tensor:
        stored[self._rows, :, self._slots] = new.transpose(1, 2)
        kept = stored[:, :, : self._end]
        return kept if self._whole else kept.index_select(0, self._rows[:, 0])

    def _grown(self, layer: int, new: Tensor, which: int) -> Tensor:
        """A half more room than needed, so that growing is rare; zeros, since masked places must be finite."""
        grown = new.new_zeros(len(self.lengths), new.shape[1], self._end + self._end // 2, new.shape[3])
        if layer in self._layers:
            old = self._layers[layer][which]
            grown[:, :, : old.shape[2]] = old
        return grown
