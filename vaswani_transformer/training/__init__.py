# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training: recipes, arguments, the trainer, its schedule, averaging of snapshots, and what a run costs.

Nothing is imported here: `recipes` needs no extra, the trainer needs `[train]`.

The loop is that of transformers. Our methods that it calls, and their files (t: `trainer`, r: `resuming`):

    train                                   r     the checkpoint is found; stop signals are caught
        _load_from_checkpoint                     weights, where a checkpoint is resumed
        get_train_dataloader                t     `loading`, of batches by `data.batching` or `data.streaming`
        _init_training_state                r     best checkpoint, intervals, what callbacks counted
        _prepare_for_training                     get_optimizer_cls_and_kwargs, create_scheduler (t), then
                                                  _load_optimizer_and_scheduler
        for each epoch: _run_epoch          r     the first after a resume: sums, place in the data
            for each update:
                for each micro-batch: compute_loss, floating_point_ops (t), which counts tokens
                _get_grad_norm              r     on CPUs loss and norm must be finite; then the optimiser's step
                on_step_end                       callbacks: cost, `averaging.SnapshotCallback`
                _maybe_log_save_evaluate    r     where due; after it, a stop that was asked for
                    store_flos, log         t
                    _evaluate               r     evaluation_loop -> prediction_step (t)
                    _save_checkpoint        r     staged, published and rotated by `checkpoints`
        _finalize_training                  r     the last line of the log; _load_best_model
"""

# What is public, and has a page in the API reference.
__all__ = [
    "arguments",
    "averaging",
    "card",
    "hub",
    "recipes",
    "run",
    "schedule",
    "trainer",
]
