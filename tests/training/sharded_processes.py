# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains toy models with FSDP2 in processes on CPUs; started by test_fsdp.py under torchrun."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from tiny import make_model
from torch.distributed.fsdp import fully_shard
from toy_language import build_trainer, make_pairs, make_tokenizer, tokenize

from vaswani_transformer import modeling_vaswani_transformer as modeling
from vaswani_transformer.training.averaging import _full_state_dict

LAYERS = (modeling.EncoderLayer, modeling.DecoderLayer)
FSDP = {
    "fsdp": True,
    "fsdp_config": {"version": 2, "transformer_layer_cls_to_wrap": ["EncoderLayer", "DecoderLayer"]},
}


def allow_fsdp_on_cpus():
    """Lets accelerate's state take an FSDP plugin on CPUs as it does on accelerators, where it would ignore it."""
    original = AcceleratorState.__init__

    def init(self, *args, fsdp_plugin=None, **kwargs):
        original(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fsdp_plugin is None:
            return
        if self.mixed_precision != "no":
            fsdp_plugin.set_mixed_precision(self.mixed_precision)
        self.fsdp_plugin = fsdp_plugin
        self.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = init


def note_fusing():
    """List to which every later decision on the fused loss is added."""
    decisions, can_fuse = [], modeling.can_fuse
    modeling.can_fuse = lambda head: decisions.append(can_fuse(head)) or decisions[-1]
    return decisions


# ---- the trainer ----


def make_trainer(folder, **options):
    """Trainer for 4 updates with two accumulation steps and dropout."""
    tokenizer = make_tokenizer()
    dataset = tokenize(tokenizer, make_pairs(60))
    options |= {"save_strategy": "steps", "save_steps": 2, "num_averaged_snapshots": 1, "snapshot_steps": 4}
    options |= {"gradient_accumulation_steps": 2, "eval_dataset": dataset.select(range(5)), "dropout": 0.1}
    return build_trainer(tokenizer, dataset, folder, **options)


def train(folder, name, resume=None, **options):
    """Log and evaluation of a training, whose model is left in the subfolder `name`."""
    trainer = make_trainer(folder, **options)
    trainer.train(resume_from_checkpoint=resume)
    metrics = trainer.evaluate(num_beams=1, max_new_tokens=3)
    trainer.save_model(str(folder / name))
    log = [[entry["loss"], entry["nll"]] for entry in trainer.state.log_history if "nll" in entry]
    return {"log": log, "eval_nll": metrics["eval_nll"]}


def restore(folder, **options):
    """Leaves the last checkpoint's model in the subfolder `restored`, without training."""
    trainer = make_trainer(folder, **options)
    trainer._load_from_checkpoint(str(folder / "checkpoint-4"))
    trainer.save_model(str(folder / "restored"))


# ---- the model alone, in float64 ----


def shard_by_hand(model):
    """Each layer by itself, and the root with the tied embedding and head."""
    for module in model.modules():
        if isinstance(module, LAYERS):
            fully_shard(module)
    return fully_shard(model)


def shard_as_accelerate(model):
    """The groups that accelerate makes: as by hand, but embedding and head in one of their own."""
    model.set_input_embeddings(model.get_input_embeddings())
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="TRANSFORMER_BASED_WRAP",
        transformer_cls_names_to_wrap=["EncoderLayer", "DecoderLayer"],
        cpu_ram_efficient_loading=False,
    )
    state = SimpleNamespace(fsdp_plugin=plugin)
    accelerator = SimpleNamespace(state=state, mixed_precision="no", is_main_process=False, device="cpu")
    return fsdp2_prepare_model(accelerator, model)


def shard_with_checkpointing(model):
    """The same, and each layer is computed again in the backward pass."""
    model.gradient_checkpointing_enable()
    return shard_as_accelerate(model)


def three_updates(shard=None, rank=0, num_processes=1, dropout=0.0):
    """Losses, first gradient and final weights of 3 updates on a batch of which each process has its rows."""
    model = make_model(dropout=dropout).double().train()
    model = model if shard is None else shard(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(1)
    source, target = (torch.randint(3, 300, (4, length), generator=generator) for length in (5, 6))
    target[1, 3:] = target[2, 5:] = -100
    num_items, losses, first = (target != -100).sum(), [], None
    rows = slice(rank * 4 // num_processes, (rank + 1) * 4 // num_processes)
    for _ in range(3):
        out = model(
            input_ids=source[rows],
            labels=target[rows],
            smoothing=0.1,
            num_items_in_batch=num_items,
            return_logits=False,
        )
        (out.loss * num_processes).backward()
        loss = out.loss.detach().clone()
        if num_processes > 1:
            torch.distributed.all_reduce(loss)
        losses.append(loss.item())
        if first is None:
            first = {name: whole(parameter.grad) for name, parameter in model.named_parameters()}
        optimizer.step()
        optimizer.zero_grad()
    return losses, first, _full_state_dict(model)


def whole(tensor):
    """A copy of a tensor, gathered if it is sharded."""
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).clone()


def compare(shard, expected, **options):
    """Largest differences of loss, gradients and weights from what is expected, and whether the loss was fused."""
    decisions = note_fusing()
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    losses, first, weights = three_updates(shard, rank, size, **options)
    return {
        "loss": max(abs(own - other) for own, other in zip(losses, expected[0], strict=True)),
        "gradient": largest_difference(first, expected[1]),
        "weights": largest_difference(weights, expected[2]) if rank == 0 else None,
        "fused": decisions,
    }


def largest_difference(own, other):
    assert own.keys() == other.keys(), own.keys() ^ other.keys()
    return max((own[name] - other[name]).abs().max().item() for name in own)


def main(folder, layout):
    torch.set_num_threads(1)
    folder, options, results = Path(folder), {}, {}
    if layout == "fsdp":
        allow_fsdp_on_cpus()
        options = FSDP
    fused = note_fusing()
    first = folder / "fp32"
    results["fp32"] = train(first, "whole", **options)
    results["resumed"] = train(first, "resumed", resume=str(first / "checkpoint-2"), **options)
    results["fused"] = list(fused)
    restore(first, **options)
    results["bf16"] = train(folder / "bf16", "whole", bf16=True, **options)
    if layout == "fsdp":
        expected = three_updates()
        results["by hand"] = compare(shard_by_hand, expected)
        results["as accelerate"] = compare(shard_as_accelerate, expected)
        results["with checkpointing"] = compare(shard_with_checkpointing, expected)
        rank = torch.distributed.get_rank()
        expected = three_updates(shard_as_accelerate, rank, 2, dropout=0.1)
        results["with checkpointing and dropout"] = compare(shard_with_checkpointing, expected, dropout=0.1)
    if torch.distributed.get_rank() == 0:
        (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
    torch.distributed.destroy_process_group()
