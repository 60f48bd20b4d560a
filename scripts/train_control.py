# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains another implementation of the Transformer exactly as `vaswani-transformer train` would train ours.

Data, vocabulary, batches and their order, loss, optimiser, schedule, validations and seeds are ours, by the same code;
only the network is another's, with its own initialisation, or with `--our-weights` the one that ours would begin with
(a Marian then has our positions and epsilon, too, and needs attention biases).
The validation curves in the `trainer_state.json` of the two runs can be laid side by side.

python scripts/train_control.py --control marian --recipe multi30k-tiny --train-source ... --output-dir runs/marian
torchrun --nproc_per_node 2 scripts/train_control.py --control torch --recipe quickstart --output-dir runs/torch
"""

import argparse
import dataclasses
import json
import logging
import math
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import MarianConfig, MarianMTModel, PreTrainedConfig, PreTrainedModel
from transformers.models.marian.modeling_marian import shift_tokens_right

from vaswani_transformer import VaswaniTransformerConfig, VaswaniTransformerForConditionalGeneration
from vaswani_transformer.cli import (
    TRAIN,
    add_options,
    add_recipe_fields,
    chosen_recipe,
    is_main_process,
    training_options,
)
from vaswani_transformer.data.preparation import pair_lengths
from vaswani_transformer.evaluation import METRICS
from vaswani_transformer.files import CONFIG_FILE, TRAIN_RESULTS_FILE, read_json, write_json
from vaswani_transformer.loss_vaswani_transformer import VaswaniTransformerLMOutput, translation_loss
from vaswani_transformer.modeling_vaswani_transformer import MultiHeadAttention, SinusoidalPositionalEncoding
from vaswani_transformer.training.checkpoints import find_checkpoint
from vaswani_transformer.training.recipes import Recipe
from vaswani_transformer.training.run import RunData, finished_results, run_training

# ---- the networks ----


class Control:
    """What our trainer asks of a model, around the logits of another network: the loss is ours for all of them."""

    accepts_loss_kwargs = True

    def forward(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        smoothing: float = 0.0,
        num_items_in_batch: torch.Tensor | int | None = None,
        return_logits: bool = True,
        use_cache: bool = False,
    ) -> VaswaniTransformerLMOutput:
        """Loss, `nll` and logits (B, T, V) of `labels` (B, T), as our model's forward gives them."""
        decoder_input_ids = shift_tokens_right(labels, self.config.pad_token_id, self.config.decoder_start_token_id)
        attended = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        logits = self.score(input_ids, attended, decoder_input_ids)
        loss, nll = translation_loss(logits, labels, smoothing, num_items_in_batch)
        return VaswaniTransformerLMOutput(loss=loss, logits=logits if return_logits else None, nll=nll)


def marian_config(sizes: VaswaniTransformerConfig) -> MarianConfig:
    """The configuration of a Marian of the sizes of one of our models."""
    return MarianConfig(
        vocab_size=sizes.vocab_size,
        d_model=sizes.d_model,
        encoder_ffn_dim=sizes.d_ff,
        decoder_ffn_dim=sizes.d_ff,
        encoder_attention_heads=sizes.num_heads,
        decoder_attention_heads=sizes.num_heads,
        encoder_layers=sizes.num_encoder_layers,
        decoder_layers=sizes.num_decoder_layers,
        dropout=sizes.dropout,
        attention_dropout=sizes.attention_dropout,
        activation_dropout=sizes.activation_dropout,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=sizes.max_position_embeddings,
        pad_token_id=sizes.pad_token_id,
        bos_token_id=sizes.bos_token_id,
        eos_token_id=sizes.eos_token_id,
        forced_eos_token_id=sizes.eos_token_id,
        decoder_start_token_id=sizes.decoder_start_token_id,
    )


class MarianControl(Control, MarianMTModel):
    """The library's Marian in our sizes. What differs from ours:

    - All weights, the embedding's too, start as normal(0, 0.02), the library's default.
    - The embedding of `<pad>` starts at zero and learns only as an output.
    - Sines fill the first half of a position, cosines the second; ours alternate.
    - The attention's projections always have biases.
    - LayerNorm's epsilon is 1e-5.
    - `final_logits_bias` is added to the logits; it is zero and not trained.
    - The positions are frozen parameters, which `num_parameters()` counts, and end at `max_position_embeddings`.
    """

    @classmethod
    def from_sizes(cls, sizes: VaswaniTransformerConfig) -> "MarianControl":
        """A freshly initialised Marian of the sizes of one of our models."""
        return cls(marian_config(sizes))

    def copy_weights(self, ours: VaswaniTransformerForConditionalGeneration) -> None:
        """Takes over all weights of one of our models with biases, its positions and its epsilon."""
        weights = ours.state_dict()
        for stack in ("encoder", "decoder"):
            weights[f"model.{stack}.embed_positions.weight"] = getattr(ours.model, stack).embed_positions.table
        weights["final_logits_bias"] = self.final_logits_bias
        self.load_state_dict(weights)
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = ours.config.layer_norm_eps

    def score(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, decoder_input_ids: torch.Tensor
    ) -> torch.Tensor:
        """Logits (B, T, V)."""
        outputs = MarianMTModel.forward(
            self, input_ids, attention_mask, decoder_input_ids=decoder_input_ids, use_cache=False
        )
        return outputs.logits


class TorchControlConfig(PreTrainedConfig):
    """Sizes of a `TorchControl`, under our names."""

    model_type = "torch_control"


class TorchControl(Control, PreTrainedModel):
    """The layers of `torch.nn` between our embedding and its transpose: the same network from other hands.

    What differs from ours is the initialisation, that of `nn.Transformer`: in the attention over the encoder, too,
    Glorot uniform takes all three input projections for one matrix, where ours leaves W^Q out; biases of the
    feed-forward layers are uniform instead of zero, and the same in all layers of a stack, which are copies of one.
    """

    config_class = TorchControlConfig

    @classmethod
    def from_sizes(cls, sizes: VaswaniTransformerConfig) -> "TorchControl":
        """A freshly initialised network of the sizes of one of our models."""
        names = {field.name for field in dataclasses.fields(VaswaniTransformerConfig)}
        return cls(TorchControlConfig(**{name: getattr(sizes, name) for name in names}))

    def __init__(self, config: TorchControlConfig):
        super().__init__(config)
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = SinusoidalPositionalEncoding(config.max_position_embeddings, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        encoder_layer, decoder_layer = (
            self._layer(kind) for kind in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
        )
        decoder_layer.multihead_attn = self._attention()
        self.encoder = nn.TransformerEncoder(encoder_layer, config.num_encoder_layers, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(decoder_layer, config.num_decoder_layers)
        self.post_init()

    def _layer(self, kind: type[nn.Module]) -> nn.Module:
        """A layer whose one dropout rate is that of sub-layer outputs, with our rates inside the sub-layers."""
        config = self.config
        layer = kind(
            config.d_model,
            config.num_heads,
            config.d_ff,
            config.dropout,
            activation="relu",
            layer_norm_eps=config.layer_norm_eps,
            batch_first=True,
            norm_first=False,
        )
        layer.dropout = nn.Dropout(config.activation_dropout)
        layer.self_attn = self._attention()
        return layer

    def _attention(self) -> nn.MultiheadAttention:
        config = self.config
        return nn.MultiheadAttention(
            config.d_model,
            config.num_heads,
            dropout=config.attention_dropout,
            bias=config.attention_bias,
            batch_first=True,
        )

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        for weight in module.parameters(recurse=False):
            if module is self.shared:
                nn.init.normal_(weight, std=self.config.d_model**-0.5)
            elif weight.dim() > 1:
                nn.init.xavier_uniform_(weight)

    def copy_weights(self, ours: VaswaniTransformerForConditionalGeneration) -> None:
        """Takes over all weights of one of our models."""
        weights = {"shared.weight": ours.model.shared.weight}
        for stack in ("encoder", "decoder"):
            for index, layer in enumerate(getattr(ours.model, stack).layers):
                prefix = f"{stack}.layers.{index}"
                attentions, norms = {"self_attn": layer.self_attn}, [layer.self_attn_layer_norm]
                if stack == "decoder":
                    attentions["multihead_attn"] = layer.encoder_attn
                    norms.append(layer.encoder_attn_layer_norm)
                norms.append(layer.final_layer_norm)
                modules = {"linear1": layer.fc1, "linear2": layer.fc2}
                modules |= {f"norm{number}": norm for number, norm in enumerate(norms, start=1)}
                for name, attention in attentions.items():
                    weights |= _joined_projections(f"{prefix}.{name}", attention)
                for name, module in modules.items():
                    weights |= {f"{prefix}.{name}.{key}": value for key, value in module.state_dict().items()}
        self.load_state_dict(weights)

    def score(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, decoder_input_ids: torch.Tensor
    ) -> torch.Tensor:
        """Logits (B, T, V). The masks of `torch.nn` say True for "do not attend"."""
        is_padding, length = attention_mask == 0, decoder_input_ids.shape[1]
        is_future = torch.ones(length, length, dtype=torch.bool, device=input_ids.device).triu(1)
        memory = self.encoder(self._embed(input_ids), src_key_padding_mask=is_padding)
        states = self.decoder(
            self._embed(decoder_input_ids),
            memory,
            tgt_mask=is_future,
            memory_key_padding_mask=is_padding,
            tgt_is_causal=True,
        )
        return nn.functional.linear(states, self.shared.weight)

    def _embed(self, ids: torch.Tensor) -> torch.Tensor:
        """(B, L, D) Dropout(embeddings * sqrt(d_model) + positions)."""
        length = ids.shape[1]
        positions = self.positions(torch.arange(length, device=ids.device), length)
        embeddings = self.shared(ids) * math.sqrt(self.config.d_model)
        return self.dropout(embeddings + positions.to(embeddings))


def _joined_projections(prefix: str, attention: MultiHeadAttention) -> dict[str, torch.Tensor]:
    """Weights of one of our attentions, whose input projections are one matrix in `nn.MultiheadAttention`."""
    inputs = (attention.q_proj, attention.k_proj, attention.v_proj)
    weights = {f"{prefix}.in_proj_weight": torch.cat([projection.weight for projection in inputs])}
    if attention.q_proj.bias is not None:
        weights[f"{prefix}.in_proj_bias"] = torch.cat([projection.bias for projection in inputs])
    return weights | {f"{prefix}.out_proj.{key}": value for key, value in attention.out_proj.state_dict().items()}


CONTROLS = {"marian": MarianControl, "torch": TorchControl}


# ---- the run ----


def train_control(
    control: str, recipe: Recipe, output_dir: str | Path, our_weights: bool = False, **options: Any
) -> dict[str, Any]:
    """Trains a control by a recipe; leaves `trainer_state.json` and `train_results.json` in the folder.

    Losses alone are compared: nothing is translated, averaged or chosen.

    Args:
        control: "marian" or "torch".
        recipe: What to train; one that stops by translations stops by the loss.
        output_dir: Folder of the run.
        our_weights: Begin with the weights that our model would have under this recipe's seed.
        **options: As for `train`: `overwrite`, `resume`, `bf16`, `use_cpu`, `report_to`, `num_proc`.

    Returns:
        Results as written to `train_results.json`.

    Raises:
        ValueError: If the control cannot have the recipe's sizes, or the run to resume is of another network.
    """
    metric = "loss" if recipe.metric_for_best_model in METRICS else recipe.metric_for_best_model
    recipe = dataclasses.replace(
        recipe,
        generation_num_beams=0,
        num_averaged_snapshots=0,
        load_best_model_at_end=False,
        metric_for_best_model=metric,
    )
    _check_sizes(recipe.model_config())
    if our_weights and control == "marian" and not recipe.model_config().attention_bias:
        raise ValueError(
            "`attention_bias` must be true for a Marian with our weights, whose attention has biases, got False. Pass "
            "--attention-bias true."
        )
    if options.get("resume"):
        _check_same_control(control, output_dir)
        if (finished := finished_results(recipe, Path(output_dir))) is not None:
            return finished
    trainer, output, data = run_training(
        recipe, output_dir, lambda recipe, data: make_control(control, recipe, data, our_weights), **options
    )
    trainer.save_state()
    results = {
        "recipe": recipe.name,
        "control": control,
        "control_our_weights": our_weights,
        **{name: value for name, value in output.metrics.items() if name.startswith("train_")},
        "train_code": ", then ".join(trainer.cost.code_versions),
        "train_steps": output.global_step,
        "train_pairs": len(data.train),
        "num_parameters": trainer.model.num_parameters(only_trainable=True),
    }
    if trainer.is_world_process_zero():
        write_json(Path(output_dir) / TRAIN_RESULTS_FILE, results)
    trainer.accelerator.wait_for_everyone()
    return results


def make_control(control: str, recipe: Recipe, data: RunData, our_weights: bool) -> PreTrainedModel:
    """A fresh control of the recipe's sizes, with positions for every sentence of the data."""
    datasets = [dataset for dataset in (data.train, data.validation) if dataset is not None]
    longest = max(int(lengths.max()) for dataset in datasets for lengths in pair_lengths(dataset))
    sizes = recipe.model_config(len(data.tokenizer))
    sizes.max_position_embeddings = max(sizes.max_position_embeddings, longest)
    ours = VaswaniTransformerForConditionalGeneration(sizes) if our_weights else None  # first: seeded as in our run
    model = CONTROLS[control].from_sizes(sizes)
    if ours is not None:
        model.copy_weights(ours)
    return model


def _check_sizes(sizes: VaswaniTransformerConfig) -> None:
    """Raises ValueError on what neither control can be."""
    if not sizes.d_model == sizes.num_heads * sizes.d_k == sizes.num_heads * sizes.d_v:
        raise ValueError(
            f"`d_k` and `d_v` must be d_model / num_heads in a control, got {sizes.d_k} and {sizes.d_v} for "
            f"{sizes.d_model} / {sizes.num_heads}. Choose a recipe without them."
        )
    if sizes.position_encoding != "sinusoidal":
        raise ValueError(
            f"`position_encoding` must be sinusoidal in a control, got {sizes.position_encoding}. Choose a recipe "
            "with sinusoids."
        )


def _check_same_control(control: str, output_dir: str | Path) -> None:
    """Raises ValueError when a run's newest checkpoint is of another network: the library would only warn."""
    checkpoint = find_checkpoint(output_dir)
    found = read_json(checkpoint / CONFIG_FILE).get("architectures") or ["nothing"]
    if found != [CONTROLS[control].__name__]:
        raise ValueError(
            f"`control` must be the network of the run to resume, got {control} for a checkpoint of {found[0]}. Pass "
            "another folder."
        )


def main(argv: list[str] | None = None) -> int:
    """Reads the command line, or `argv`, trains and prints the results; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0], allow_abbrev=False)
    parser.add_argument(
        "--control", required=True, choices=CONTROLS, help="the network: MarianMTModel or torch.nn's layers"
    )
    parser.add_argument("--our-weights", action="store_true", help="begin with our weights, positions and epsilon")
    add_options(parser, TRAIN)
    add_recipe_fields(parser)
    args = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("vaswani_transformer").setLevel(logging.INFO if is_main_process() else logging.ERROR)
    try:
        recipe = chosen_recipe(args)
        options = training_options(args, recipe)
        results = train_control(args.control, recipe, args.output_dir, args.our_weights, **options)
    except (ValueError, TypeError, OSError, ImportError) as error:
        parser.exit(2, f"error: {error}\n")
    if is_main_process():
        print(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
