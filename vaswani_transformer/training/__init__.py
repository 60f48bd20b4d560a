# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training: recipes, arguments, the trainer, its schedule, averaging of snapshots, and what a run costs.

Nothing is imported here: `recipes` needs no extra, the trainer needs `[train]`.

The loop is the library's. What it calls that is ours, and in which file (t: `trainer`, r: `resumable_trainer`; the
third class, `hub_trainer`, only pushes):

    train                               t, r  warnings; the checkpoint is checked; stop signals are caught
        get_train_dataloader            t     `loading`: batches planned by `data.batching`, or `data.streaming`
        _load_from_checkpoint           r
        _init_training_state            r     best checkpoint, intervals, what callbacks counted
        _prepare_for_training           r     FSDP; get_optimizer_cls_and_kwargs and create_scheduler (t)
        for each epoch: _run_epoch      r     the first after a resume: sums, random state, place in the data
            for each update:
                compute_loss            t     for each micro-batch; then floating_point_ops counts its tokens
                _get_grad_norm          t     `guard` notes loss and norm
                on_step_end                   callbacks: cost, guard, `averaging.SnapshotCallback`, progress
                _maybe_log_save_evaluate    r
                    log                 t     store_flos before it
                    _evaluate           r     evaluation_loop -> prediction_step (t), sums in `validation`
                    _save_checkpoint    t, r  staged, published and rotated by `checkpoints`, with `running_sums`
                    a stop that was asked for
        _finalize_training              r     the last log line; _load_best_model
"""

# What is public, and has a page in the API reference.
__all__ = [
    "arguments",
    "averaging",
    "card",
    "cost",
    "curves",
    "publish",
    "recipe",
    "recipes",
    "run",
    "schedule",
    "schedule_drawing",
    "speed",
    "sweeps",
    "trainer",
    "variations",
    "variations_report",
]
