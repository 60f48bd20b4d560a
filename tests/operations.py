# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The operations of torch that some code runs."""

from torch.utils._python_dispatch import TorchDispatchMode

READ = "aten._local_scalar_dense.default"  # asks a device for a value and waits for it


class Operations(TorchDispatchMode):
    """Records (operation, arguments, named arguments, result) while the context lasts."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.calls.append((function, args, kwargs or {}, result))
        return result

    def names(self):
        return [str(function) for function, *_ in self.calls]
