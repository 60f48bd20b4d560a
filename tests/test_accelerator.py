# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The accelerator of the tests refuses and counts what a GPU would refuse or wait for."""

import warnings

import pytest
import torch
from accelerator import waits


@pytest.mark.parametrize(
    "mix",
    [
        torch.add,
        lambda a, b: torch.cat([a, b]),
        lambda a, b: b.index_select(0, a.long()),
    ],
    ids=["add", "cat", "index_select"],
)
def test_tensors_of_the_host_are_refused_beside_the_accelerators(accel, mix):
    assert mix(torch.ones(2, device=accel), torch.ones(2, device=accel)).device == accel
    with pytest.raises(RuntimeError, match="same device"):
        mix(torch.ones(2, device=accel), torch.ones(2))
    with pytest.raises((RuntimeError, TypeError)):
        torch.ones(2, device=accel).numpy()


WAITS = {
    "item": lambda x: x[0].item(),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: torch.ones(2).to(x.device),
    "copy_": lambda x: x.copy_(torch.ones(2)),
    "mask": lambda x: x[x > 0],
    "host's index": lambda x: x[torch.tensor([1, 0])],
    "masked put": lambda x: x.index_put_((x == 0,), x.clone()),
}
FREE = {
    "scalar": lambda x: x * torch.tensor(2.0),
    "fill": lambda x: x.masked_fill_(x > 0, 1.0),
    "masked fill": lambda x: x.__setitem__(x > 0, 1.0),
    "full": lambda x: torch.full((2,), 3.0, device=x.device),
    "dtype": lambda x: x.to(x.device, torch.float64),
    "index": lambda x: x[x.long()],
    "non_blocking": lambda x: torch.ones(2).to(x.device, non_blocking=True),
}


@pytest.mark.parametrize("name", [*WAITS, *FREE])
def test_a_wait_is_noted_with_its_place(accel, name):
    x = torch.zeros(2, device=accel)
    with waits() as found:
        {**WAITS, **FREE}[name](x)
    places = {each.rpartition(" at ")[2].split(":")[0] for each in found}
    assert places == ({"test_accelerator.py"} if name in WAITS else set())


# ---- a GPU in its place, which need not be there ----


def test_device_is_the_gpu_and_its_waits_are_what_torch_warns_of(request, monkeypatch):
    modes = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    assert request.getfixturevalue("accel") == torch.device("cuda:0")
    with waits() as found:
        warnings.warn("Synchronization debug mode is a prototype feature ...", stacklevel=1)
        for _ in range(2):
            warnings.warn(
                "called a synchronizing CUDA operation (Triggered internally at ...)", stacklevel=1
            )
        assert [each.split(":")[0] for each in found] == ["wait at test_accelerator.py"] * 2
    assert modes == ["warn", "default"]
