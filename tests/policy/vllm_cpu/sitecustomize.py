"""Lets PyPI's torchvision, a CUDA build, be imported beside the CPU build of torch, as vLLM needs it to be.

torchvision names two operators that its missing library would have declared; declared here first, it loads without
them. They have to be there before its first import, in every process: Python imports this file at its start where the
folder is on PYTHONPATH.
"""

import sys
from importlib.abc import MetaPathFinder

KEPT = []


class _Declare(MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "torchvision":
            sys.meta_path.remove(self)
            from torch.library import Library

            KEPT.append(Library("torchvision", "FRAGMENT"))
            for operator in ("nms", "qnms"):
                KEPT[0].define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


sys.meta_path.insert(0, _Declare())
