# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""An accelerator with real numbers and without silicon: a device "accel" of torch, that computes on
the CPU.

Its tensors report the device "accel:0" and hold a CPU tensor of which they have shape, strides and
dtype; the same kernels run as on the CPU, so results are equal bit for bit. As on a GPU, an
operation that mixes it with CPU tensors of at least one dimension fails, and `waits` notes what
would make the host wait: a value read, a shape that depends on values, a copy between host and
device that is not `non_blocking`. Where there is a GPU, tests get it instead.

`conftest.py` imports this: torch starts the threads of backward passes with the first one, for the
devices known then.
"""

import contextlib
import functools
import sys
import warnings

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_map_only
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _DummyPrivateUse1Hook,
    _setup_privateuseone_for_python_backend,
)

from vaswani_transformer import modeling_vaswani_transformer as modeling

_READS = {
    *"_local_scalar_dense nonzero masked_select _unique2 unique_dim unique_consecutive".split(),
    *"equal repeat_interleave bincount is_nonzero item".split(),
}
_COPIES = {"_to_copy", "copy_", "_copy_from"}
# takes CPU indices, which it copies
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}
_is_present = False
_watchers = []


class AccelTensor(torch.Tensor):
    """A tensor on the accelerator; `host` holds its numbers."""

    @staticmethod
    def __new__(cls, host):
        layout = {
            "strides": host.stride(),
            "storage_offset": host.storage_offset(),
            "dtype": host.dtype,
        }
        made = torch.Tensor._make_wrapper_subclass(cls, host.size(), **layout, device=DEVICE)
        made.host = host
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if torch._C._dispatch_has_kernel_for_dispatch_key(
            function.name(), "CompositeImplicitAutograd"
        ):
            # which torch leaves to us in inference mode
            return function.decompose(*args, **(kwargs or {}))
        return _run(function, *args, **(kwargs or {}))

    def __repr__(self):
        return f"AccelTensor({self.host})"

    def tolist(self):
        return self.cpu().tolist()


@contextlib.contextmanager
def waits():
    """List of what the host waits for while the context lasts: operation and place, from a line of
    the package.

    Waits for a GPU are those that torch warns of; it does not name the operation.
    """
    found = []
    if torch.cuda.is_available():
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = functools.partial(_note_warning, found)
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield found
            finally:
                torch.cuda.set_sync_debug_mode("default")
        return
    _watchers.append(found)
    try:
        yield found
    finally:
        _watchers.remove(found)


@pytest.fixture
def accel(monkeypatch):
    """The GPU, or else the device, which torch takes for the machine's accelerator.

    `model.to(accel)` keeps ties.
    """
    if torch.cuda.is_available():
        return torch.device("cuda", 0)
    if not _IS_FREE:
        pytest.skip("this build of torch is made for an accelerator, and there is no GPU")
    monkeypatch.setattr(sys.modules[__name__], "_is_present", True)
    monkeypatch.setattr(torch.__future__, "_swap_module_params_on_conversion", True)
    # as it is but for the class of the weight
    monkeypatch.setattr(modeling, "can_fuse", lambda head: True)
    return DEVICE


def _run(function, *args, **kwargs):
    """Runs an operator on the host's tensors; what it makes is on the accelerator, unless the host
    was asked for.
    """
    name = function._schema.name.removeprefix("aten::")
    target = kwargs.get("device")
    to_host = target is not None and torch.device(target).type != DEVICE.type
    _note_waits(name, function._schema, args, kwargs, to_host)
    if target is not None:
        kwargs["device"] = "cpu"
    host_args, host_kwargs = tree_map_only(AccelTensor, lambda tensor: tensor.host, (args, kwargs))
    made = function(*host_args, **host_kwargs)
    written = _written(function._schema, args, kwargs)
    if written:
        count = len(function._schema.returns)
        return written[0] if count == 1 else tuple(written[:count]) if count else None
    return made if to_host else tree_map_only(torch.Tensor, AccelTensor, made)


def _written(schema, args, kwargs):
    """Arguments that an operator writes to, which it returns as they are."""
    named = dict(zip((each.name for each in schema.arguments), args, strict=False)) | kwargs
    return [
        named[each.name]
        for each in schema.arguments
        if each.alias_info is not None and each.alias_info.is_write
    ]


def _note_waits(name, schema, args, kwargs, to_host):
    """Fails on mixed devices as a GPU does, and notes what would wait."""
    tensors = [each for each in tree_flatten((args, kwargs))[0] if torch.is_tensor(each)]
    on_host = [each for each in tensors if not isinstance(each, AccelTensor)]
    if name in _COPIES:
        is_blocking = (
            not kwargs.get("non_blocking", len(args) > 2 and args[2]) and tensors[-1].numel() > 0
        )
        does_wait = (to_host or bool(on_host)) and is_blocking
    elif name in _INDEXING:
        is_masked = any(each.dtype == torch.bool for each in tensors[1:])
        is_fill = name != "index" and tensors[-1].numel() == 1  # with a mask a `masked_fill_`
        does_wait = any(each.ndim > 0 for each in on_host) or (is_masked and not is_fill)
    else:
        does_wait = name in _READS
        if any(each.ndim > 0 for each in on_host) and len(on_host) < len(tensors):
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but {name} got accel:0 and cpu."
            )
    if does_wait:
        for watcher in _watchers:
            watcher.append(f"{name} at {_place()}")


def _note_warning(found, message, *_):
    if "called a synchronizing CUDA operation" in str(message):
        found.append(f"wait at {_place()}")


def _place():
    """The innermost line of the package, or else of whoever called torch."""
    frame = sys._getframe(1)
    first = None
    while frame is not None:
        path = frame.f_code.co_filename
        if "/vaswani_transformer/" in path:
            return f"{path.rpartition('/')[2]}:{frame.f_lineno}"
        if first is None and "/torch/" not in path and path not in (__file__, warnings.__file__):
            first = f"{path.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return first


class _Module(_DummyBackendModule):
    def is_available(self):
        return _is_present

    def get_amp_supported_dtype(self):
        return [torch.bfloat16, torch.float16]


class _Hook(_DummyPrivateUse1Hook):
    def is_available(self):
        return _is_present


def _copy_from(source, target, non_blocking=False):
    return _run(torch.ops.aten.copy_.default, target, source, non_blocking)


_IS_FREE = torch.accelerator.current_accelerator() is None  # torch knows one accelerator
if _IS_FREE:
    _setup_privateuseone_for_python_backend("accel", _Module(), _Hook())
    DEVICE = torch.device("accel:0")
    # operators without an accelerator's tensor among their arguments
    _everything = torch.library.Library("_", "IMPL")
    _everything.fallback(_run, "PrivateUse1")
    _copies = torch.library.Library("aten", "IMPL")  # for which the fallback is not asked
    _copies.impl("_copy_from", _copy_from, "PrivateUse1")
    for _overload in ("default", "start", "start_step"):  # by default made of no size and resized
        _operator = getattr(torch.ops.aten.arange, _overload)
        _copies.impl(
            _operator.name().removeprefix("aten::"),
            functools.partial(_run, _operator),
            "PrivateUse1",
        )
