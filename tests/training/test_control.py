# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The script that trains other implementations as ours: the same network up to what it names, the same training."""

import dataclasses
import importlib.util
import json
from pathlib import Path

import processes
import pytest
import torch
from tiny import make_config, make_model
from torch import nn
from toy_language import make_pairs

from vaswani_transformer.cpu_kernels_vaswani_transformer import Dropout
from vaswani_transformer.training.recipes import Recipe
from vaswani_transformer.training.run import train
from vaswani_transformer.training.trainer import VaswaniTransformerTrainer

SCRIPT = Path(__file__).parents[2] / "scripts" / "train_control.py"


def load_script():
    spec = importlib.util.spec_from_file_location("train_control", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = load_script()
each_control = pytest.mark.parametrize("control", ["marian", "torch"])
biases = pytest.mark.parametrize("attention_bias", [True, False], ids=["biases", "no biases"])
RATES = {"dropout": 0.1, "attention_dropout": 0.2, "activation_dropout": 0.3}


def make_control(control, **overrides):
    """A seeded tiny control in eval mode."""
    torch.manual_seed(0)
    return script.CONTROLS[control].from_sizes(make_config(**overrides)).eval()


@pytest.fixture
def batch():
    """Three pairs; two sources and one target are padded."""
    torch.manual_seed(1)
    source, labels = torch.randint(3, 300, (3, 7)), torch.randint(3, 300, (3, 6))
    mask = torch.ones_like(source)
    mask[1, 5:] = mask[2, 3:] = 0
    labels[0, 4:] = -100
    return {"input_ids": source * mask, "attention_mask": mask, "labels": labels}


# ---- the network ----


def copied(control, **overrides):
    """A control in eval mode with the weights of one of our models, none of them zero or one, and that model."""
    ours, theirs = make_model(**overrides), make_control(control, **overrides)
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            if "bias" in name or "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    theirs.copy_weights(ours)
    return theirs, ours


CASES = [("marian", True), ("torch", True), ("torch", False)]  # Marian always has biases


@pytest.mark.parametrize(("control", "attention_bias"), CASES)
def test_control_with_our_weights_gives_our_logits(batch, control, attention_bias):
    theirs, ours = copied(control, attention_bias=attention_bias, num_encoder_layers=3)
    expected = ours(**batch).logits
    torch.testing.assert_close(theirs(**batch).logits, expected, rtol=0, atol=1e-5)
    with torch.no_grad():  # torch.nn has another path for this
        torch.testing.assert_close(theirs(**batch).logits, expected, rtol=0, atol=1e-5)


def drop_predictably(monkeypatch):
    """Dropout whose zeros depend on its place in the forward pass alone; that of attention scales by its rate."""
    attend, places = nn.functional.scaled_dot_product_attention, []

    def dropout(states, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return states
        places.append(p)
        zeros = torch.Generator().manual_seed(len(places))
        return states * (torch.rand(states.shape, generator=zeros) >= p) / (1 - p)

    def scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
        return attend(q, k, v, attn_mask, 0.0, is_causal, scale=scale) * (1 + dropout_p)

    monkeypatch.setattr(nn.functional, "dropout", dropout)
    without_our_masks = lambda self, states, residual=0.0: nn.Dropout.forward(self, states) + residual  # noqa: E731
    monkeypatch.setattr(Dropout, "forward", without_our_masks)
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", scaled_dot_product_attention)
    return places


@pytest.mark.parametrize(("control", "attention_bias"), CASES)
def test_control_with_our_weights_drops_where_ours_does(batch, monkeypatch, control, attention_bias):
    theirs, ours = (model.train() for model in copied(control, attention_bias=attention_bias, **RATES))
    places = drop_predictably(monkeypatch)
    expected = ours(**batch).logits
    places.clear()
    torch.testing.assert_close(theirs(**batch).logits, expected, rtol=0, atol=1e-5)
    assert {*places} == {RATES["dropout"], RATES["activation_dropout"]}


@biases
def test_torch_control_has_as_many_parameters_as_ours(attention_bias):
    sizes = {"attention_bias": attention_bias, "num_decoder_layers": 3}
    assert make_control("torch", **sizes).num_parameters() == make_model(**sizes).num_parameters()


def test_marian_control_has_as_many_trained_parameters_as_ours_with_biases():
    ours = make_model(attention_bias=True, num_decoder_layers=3).num_parameters()
    assert make_control("marian", num_decoder_layers=3).num_parameters(only_trainable=True) == ours


def test_torch_control_begins_with_embeddings_like_ours_and_with_layers_like_nn_transformer():
    theirs = make_control("torch", d_model=64, d_ff=128, attention_bias=True)
    like = nn.Transformer(64, 2, 2, 2, 128, batch_first=True)
    for (name, weight), (_, other) in zip(
        [*theirs.encoder.layers.named_parameters(), *theirs.decoder.layers.named_parameters()],
        [*like.encoder.layers.named_parameters(), *like.decoder.layers.named_parameters()],
        strict=True,
    ):
        assert weight.std().item() == pytest.approx(other.std().item(), rel=0.25), name
    assert theirs.shared.weight.std().item() == pytest.approx(64**-0.5, rel=0.05)
    first, second = (layer.linear1.weight for layer in theirs.decoder.layers)
    assert not torch.equal(first, second)


def test_marian_control_begins_with_the_librarys_own_weights():
    weights = make_control("marian", d_model=64, d_ff=128).state_dict()
    for name in ("model.shared.weight", "model.decoder.layers.1.encoder_attn.q_proj.weight"):
        assert weights[name].std().item() == pytest.approx(0.02, rel=0.05)


# ---- the loss ----


@each_control
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_control_loss_is_the_smoothed_cross_entropy_of_its_logits(batch, control, smoothing):
    output = make_control(control)(**batch, smoothing=smoothing, num_items_in_batch=7)
    log_probs = output.logits.double().log_softmax(-1)
    loss = nll = 0.0
    for row, step in torch.nonzero(batch["labels"] != -100).tolist():
        right = -log_probs[row, step, batch["labels"][row, step]].item()
        loss += (1 - smoothing) * right - smoothing * log_probs[row, step].mean().item()
        nll += right
    assert output.loss.item() == pytest.approx(loss / 7, rel=1e-5)
    assert smoothing == 0 or output.nll.item() == pytest.approx(nll / 7, rel=1e-5)


@each_control
@biases
def test_control_loss_of_a_sentence_ignores_padding_and_batch_mates(batch, control, attention_bias):
    model = make_control(control, attention_bias=attention_bias).double()
    with torch.no_grad():
        together = model(**batch, num_items_in_batch=1).loss.item()
        alone = 0.0
        for source, mask, labels in zip(*batch.values(), strict=True):
            pair = {"input_ids": source[mask == 1][None], "labels": labels[labels != -100][None]}
            alone += model(**pair, num_items_in_batch=1).loss.item()
    assert together == pytest.approx(alone, rel=1e-12)


@each_control
def test_control_does_not_see_the_token_it_predicts(batch, control):
    model, changed = make_control(control).double(), {**batch, "labels": batch["labels"].clone()}
    changed["labels"][:, 3] = 5
    difference = (model(**batch).logits - model(**changed).logits).abs().amax(dim=(0, 2))
    assert difference[:4].max() < 1e-12 < 1e-7 < difference[4:].min()


# ---- the training ----


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """Recipe of a tiny model on two text files a split, with dropout and several batches an epoch."""
    folder = tmp_path_factory.mktemp("text")
    fields = {}
    for split, seed, size in (("train", 0, 80), ("validation", 1, 6)):
        for side, index in (("source", 0), ("target", 1)):
            path = folder / f"{split}.{side}"
            path.write_text("".join(f"{pair[index]}\n" for pair in make_pairs(size, seed)), encoding="utf-8")
            fields[f"{split}_{side}"] = str(path)
    sizes = {"vocab_size": 290, "d_model": 16, "d_ff": 32, "num_heads": 2}
    batches = {"max_source_tokens_per_batch": 200, "max_target_tokens_per_batch": 200}
    steps = {"max_steps": 6, "warmup_steps": 10, "eval_steps": 2, "save_steps": 2, "logging_steps": 2}
    return Recipe(name="tiny", num_encoder_layers=1, num_decoder_layers=1, **sizes, **fields, **batches, **steps)


def command(recipe, control, folder, *flags, **changes):
    """Arguments of the script for a recipe."""
    names = [name for name in recipe.__dataclass_fields__ if getattr(recipe, name) != getattr(Recipe(), name)]
    values = {**{name: getattr(recipe, name) for name in names}, **changes}
    options = [part for name, value in values.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    return ["--control", control, "--output-dir", str(folder), "--use-cpu", *options, *flags]


def eval_losses(folder):
    log = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    return {entry["step"]: entry["eval_loss"] for entry in log if "eval_loss" in entry}


@pytest.mark.slow
@each_control
def test_control_is_trained_on_the_batches_of_ours(recipe, tmp_path, monkeypatch, control):
    seen, compute_loss = [], VaswaniTransformerTrainer.compute_loss

    def watched(trainer, model, inputs, *args, **kwargs):
        seen.append([inputs[name].tolist() for name in ("input_ids", "attention_mask", "labels")])
        return compute_loss(trainer, model, inputs, *args, **kwargs)

    monkeypatch.setattr(VaswaniTransformerTrainer, "compute_loss", watched)
    ours = train(recipe, tmp_path / "ours", use_cpu=True)
    batches_of_ours = seen.copy()
    seen.clear()
    theirs = script.train_control(control, recipe, tmp_path / "theirs", use_cpu=True)
    assert seen == batches_of_ours
    names = ("train_source_tokens", "train_target_tokens", "train_pairs", "train_steps")
    assert {name: theirs[name] for name in names} == {name: ours[name] for name in names}


@pytest.mark.slow
@each_control
def test_control_with_our_weights_and_without_dropout_learns_as_ours(recipe, tmp_path, control):
    same = dataclasses.replace(recipe, dropout=0.0, attention_bias=True)
    ours = train(same, tmp_path / "ours", use_cpu=True)
    theirs = script.train_control(control, same, tmp_path / "theirs", our_weights=True, use_cpu=True)
    assert theirs["train_loss"] == pytest.approx(ours["train_loss"], rel=1e-5)
    assert eval_losses(tmp_path / "theirs") == pytest.approx(eval_losses(tmp_path / "ours"), rel=1e-5)
    other = script.train_control(control, same, tmp_path / "other", use_cpu=True)
    assert other["train_loss"] != pytest.approx(ours["train_loss"], rel=1e-3)


def test_marian_cannot_take_our_weights_without_biases(recipe, tmp_path):
    without = dataclasses.replace(recipe, attention_bias=False)
    with pytest.raises(ValueError, match="`attention_bias` must be true"):
        script.train_control("marian", without, tmp_path / "run", our_weights=True, use_cpu=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("control", "switch"), [("marian", "--resume"), ("torch", "--resume-or-start")])
def test_control_resumed_from_the_command_line_has_the_curve_of_one_that_ran_through(
    recipe, tmp_path, control, switch
):
    assert script.main(command(recipe, control, tmp_path / "through")) == 0
    assert script.main(command(recipe, control, tmp_path / "resumed", max_steps=4)) == 0
    assert sorted(eval_losses(tmp_path / "resumed")) == [2, 4]
    assert script.main(command(recipe, control, tmp_path / "resumed", switch)) == 0
    assert sorted(eval_losses(tmp_path / "resumed")) == [2, 4, 6]
    assert eval_losses(tmp_path / "resumed") == pytest.approx(eval_losses(tmp_path / "through"), rel=1e-6)


def test_control_results_name_it_with_its_size_and_survive_resuming_a_finished_run(recipe, tmp_path):
    results = script.train_control("torch", recipe, tmp_path, use_cpu=True)
    assert json.loads((tmp_path / "train_results.json").read_text(encoding="utf-8")) == results
    size = make_model(vocab_size=290, num_encoder_layers=1, num_decoder_layers=1).num_parameters()
    assert (results["control"], results["num_parameters"], results["train_steps"]) == ("torch", size, 6)
    assert script.train_control("torch", recipe, tmp_path, use_cpu=True, resume=True) == results


@pytest.mark.slow
def test_script_starts_as_a_file_and_refuses_a_checkpoint_of_another_network(recipe, tmp_path):
    script.train_control("marian", recipe, tmp_path, use_cpu=True)
    status, _, errors = processes.run([SCRIPT, *command(recipe, "torch", tmp_path, "--resume")], tmp_path)
    assert status == 2
    assert "error: `control` must be the network of the run to resume, got torch" in errors


@pytest.mark.parametrize("fields", [{"d_k": 4}, {"position_encoding": "learned"}])
def test_controls_refuse_sizes_they_cannot_have(recipe, tmp_path, fields):
    changed = Recipe(**{**vars(recipe), **fields})
    with pytest.raises(ValueError, match="in a control, got"):
        script.train_control("torch", changed, tmp_path / "run", use_cpu=True)
    assert not (tmp_path / "run").exists()
