# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Our trainer on a device: the host waits for it where it logs, and nowhere else."""

import pytest
import torch
import transformers
from accelerator import waits
from transformers import TrainerCallback, TrainingArguments
from transformers.training_args import ParallelMode


class Marks(TrainerCallback):
    """Notes where updates end and log lines are, among the waits."""

    found = ()

    def on_train_begin(self, args, state, control, **kwargs):
        self.found.clear()

    def on_step_end(self, args, state, control, **kwargs):
        self.found.append("update")

    def on_log(self, args, state, control, **kwargs):
        self.found.append("log")


@pytest.fixture
def train(make_trainer, monkeypatch):
    """Function that trains on a device, and returns the trainer and what the host waited for, in
    order.
    """

    def train(device, **options):
        monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", str(device))
        marks = Marks()
        # the Python device has no pinned memory
        options = {
            "max_steps": 4,
            "logging_steps": 2,
            "use_cpu": device == "cpu",
            "dataloader_pin_memory": False,
            **options,
        }
        is_scaled = options.pop("is_scaled", False)
        trainer = make_trainer(extra={"callbacks": [marks]}, **options)
        if is_scaled:  # as accelerate does for fp16 on devices that it knows
            trainer.accelerator.scaler, trainer.args.fp16 = torch.amp.GradScaler(device), True
        with waits() as marks.found:
            trainer.train()
        assert trainer.model.device == torch.device(device)
        return trainer, marks.found

    return train


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_padded_tokens_per_device": 150, "max_grad_norm": 1.0},
        pytest.param({"is_stream": True}, marks=pytest.mark.heavy),
        {"is_scaled": True},
    ],
    ids=["plain", "accumulated and clipped", "stream", "loss scaler"],
)
def test_an_update_waits_for_nothing_but_at_a_line_of_the_log(accel, train, dataset, options):
    if options.pop("is_stream", False):
        columns = dataset.remove_columns(["source_length", "target_length"])
        options["train_dataset"] = columns.to_iterable_dataset()
    trainer, found = train(accel, **options)
    first, _, others = " ".join("wait" if " at " in each else each for each in found).partition(
        " log "
    )
    assert first == "update update wait"
    assert others.startswith(first + " log")
    assert (trainer.args.gradient_accumulation_steps > 1) == ("max_grad_norm" in options)


@pytest.mark.slow
def test_sums_are_gathered_on_the_device_of_one_process_of_a_launcher(accel, train, monkeypatch):
    """NCCL, which `torchrun --nproc-per-node 1` gives a GPU, serves no tensor of the host."""
    gathered = []

    def gather(tensor, mode):
        gathered.append((tensor.device, mode))
        return tensor

    monkeypatch.setattr(transformers.trainer, "nested_gather", gather)
    monkeypatch.setattr(TrainingArguments, "parallel_mode", ParallelMode.DISTRIBUTED)
    train(accel)
    assert set(gathered) == {(accel, ParallelMode.DISTRIBUTED)}


@pytest.mark.slow
def test_a_training_and_its_evaluation_on_a_device_are_those_of_the_cpu(accel, train, untranslated):
    on_host, on_device = (train(device, dtype="float64")[0] for device in ("cpu", accel))
    weights = {name: tensor.cpu() for name, tensor in on_device.model.state_dict().items()}
    torch.testing.assert_close(weights, dict(on_host.model.state_dict()), rtol=0, atol=1e-9)
    expected, got = (
        trainer.evaluate(untranslated[0].select(range(9))) for trainer in (on_host, on_device)
    )
    names = [name for name in expected if not name.endswith(("runtime", "per_second"))]
    assert {"eval_nll", "eval_sacrebleu"} < set(names)
    assert [got[name] for name in names] == pytest.approx(
        [expected[name] for name in names], rel=1e-6
    )


@pytest.fixture
def switches():
    """Whether cuDNN's attention was on at each forward pass of a model; on before."""
    found, was_enabled = [], torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    note = torch.nn.modules.module.register_module_forward_pre_hook(
        lambda module, _: found.append(torch.backends.cuda.cudnn_sdp_enabled())
    )
    yield found
    note.remove()
    torch.backends.cuda.enable_cudnn_sdp(was_enabled)


def test_training_and_evaluation_on_a_device_leave_out_cudnns_attention(
    accel, train, dataset, switches
):
    trainer, _ = train(accel, max_steps=1, eval_dataset=dataset.select(range(2)))
    trainer.evaluate(num_beams=1, max_new_tokens=3)
    assert switches and not any(switches)
    assert torch.backends.cuda.cudnn_sdp_enabled()
