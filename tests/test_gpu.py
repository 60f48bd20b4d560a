# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What a GPU alone can show:

`python -m pytest -m gpu`. The CPU, or the device that it plays, runs the same code.
"""

import copy

import pytest
import torch
from accelerator import waits
from test_beam_search import as_on_a_device  # noqa: F401  (a fixture)
from tiny import GPU, ON_CPU_AND_GPU, make_model
from toy_language import SignalIn, build_trainer, make_pairs, make_tokenizer, tokenize
from transformers import TrainerCallback

from vaswani_transformer import beam_search_vaswani_transformer as fast_search

BEAMS = pytest.mark.parametrize("num_beams", [1, 4])

SOURCE = torch.randint(3, 300, (8, 21), generator=torch.Generator().manual_seed(1))
SOURCE[:4, 15:] = 0
BATCH = {"input_ids": SOURCE, "attention_mask": SOURCE.ne(0).long()}
ENDLESS = {"eos_token_id": 10**6}  # no processor, with which no step is captured


@pytest.fixture(params=["played", GPU])
def device(accel, monkeypatch):
    """The device that the CPU plays, or a GPU."""
    if accel.type != "cuda":
        # but for the class of its weights
        monkeypatch.setattr(fast_search, "is_plain", lambda model: True)
        monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", str(accel))
    return accel


@pytest.fixture
def make_trainer(tmp_path):
    """Function that makes a trainer on a device."""
    tokenizer = make_tokenizer()
    dataset = tokenize(tokenizer, make_pairs(60))

    def make(device, folder="run", **options):
        options |= {"use_cpu": device == "cpu", "dataloader_pin_memory": torch.cuda.is_available()}
        return build_trainer(tokenizer, dataset, tmp_path / folder, **options)

    return make


def on_device_of(model, batch):
    return {name: tensor.to(model.device) for name, tensor in batch.items()}


def decode(model, num_tokens=40, **options):
    options |= {"max_new_tokens": num_tokens, "return_dict_in_generate": True}
    made = model.generate(**on_device_of(model, BATCH), **options)
    # greedy search has none
    scores = made.get("sequences_scores", torch.zeros(len(made.sequences)))
    return made.sequences.cpu(), scores.cpu()


# ---- equality with the CPU, and capture ----


@ON_CPU_AND_GPU
@BEAMS
def test_decoding_is_captured_and_finds_what_it_finds_uncaptured_and_on_the_cpu(
    request, where, num_beams, monkeypatch
):
    # tied, a random model would repeat one token
    on_host = make_model(seed=1, scale=3.0, d_model=64, d_ff=128, tie_word_embeddings=False)
    expected = decode(on_host, num_beams=num_beams, **ENDLESS)
    if where == "cpu":
        request.getfixturevalue("as_on_a_device")
    capture = fast_search.capture
    is_captured = []
    model = copy.deepcopy(on_host).to(where)

    def noted(step, device):
        replay = capture(step, device)
        # else it has warned that steps are launched kernel by kernel
        is_captured.append(replay is not step)
        return replay

    monkeypatch.setattr(fast_search, "capture", noted)
    captured = decode(model, num_beams=num_beams, **ENDLESS)
    assert is_captured == [True, True]  # anew when the room for 32 tokens is full
    monkeypatch.setattr(fast_search, "can_capture", lambda device: False)
    uncaptured = decode(model, num_beams=num_beams, **ENDLESS)
    assert len(is_captured) == 2
    for each in (captured, uncaptured):
        torch.testing.assert_close(each, expected, rtol=1e-5, atol=1e-5)


# ---- training ----


class Gradients(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        found = torch.cat([parameter.grad.flatten().cpu() for parameter in model.parameters()])
        self.direction = found / found.norm()  # whatever the scale of the loss


@ON_CPU_AND_GPU
@pytest.mark.parametrize(("precision", "error"), [("fp32", 1e-5), ("bf16", 0.05), ("fp16", 0.01)])
def test_update_in_each_precision_is_nearly_that_of_the_cpu_in_fp32(
    make_trainer, where, precision, error
):
    losses = []
    directions = []
    for device, kind in (("cpu", "fp32"), (where, precision)):
        gradients = Gradients()
        options = {} if kind == "fp32" else {kind: True}
        trainer = make_trainer(device, max_steps=1, extra={"callbacks": [gradients]}, **options)
        if kind == "fp16":  # accelerate has it on GPUs alone
            trainer.accelerator.native_amp = True
            trainer.accelerator.scaler = torch.amp.GradScaler(where)
        trainer.train()
        losses.append(trainer.state.log_history[0]["loss"])
        directions.append(gradients.direction)
    assert losses[1] == pytest.approx(losses[0], rel=error)
    assert (directions[1] - directions[0]).norm() < error
    assert (precision == "fp32") or not torch.equal(*directions)


@ON_CPU_AND_GPU
def test_training_that_was_stopped_and_resumed_is_the_whole_one_bit_for_bit(
    make_trainer, where, tmp_path
):
    torch.use_deterministic_algorithms(True)  # else attention's gradients differ from run to run
    try:
        trainers = [make_trainer(where, folder, dropout=0.1) for folder in ("whole", "parts")]
        trainers[0].train()
        with pytest.raises(KeyboardInterrupt):
            make_trainer(where, "parts", dropout=0.1, extra={"callbacks": [SignalIn(2)]}).train()
        trainers[1].train(resume_from_checkpoint=True)
    finally:
        torch.use_deterministic_algorithms(False)
    assert [path.name for path in tmp_path.glob("parts/checkpoint-*")] == ["checkpoint-2"]
    assert trainers[1].state.global_step == 4
    expected, got = (trainer.model.state_dict() for trainer in trainers)
    assert all(torch.equal(got[name], tensor) for name, tensor in expected.items())


# ---- waits ----


@pytest.mark.parametrize(
    ("options", "num_beams"),
    [
        (ENDLESS, 4),
        pytest.param(ENDLESS, 1, marks=pytest.mark.heavy),
        pytest.param({"suppress_tokens": [2]}, 4, marks=pytest.mark.heavy),
        ({"suppress_tokens": [2]}, 1),
    ],
)
def test_decoding_waits_a_quarter_of_a_step_at_most(device, options, num_beams):
    """Whether there are numbers, and how many sentences are open, every eighth step."""
    model = make_model(num_encoder_layers=1, num_decoder_layers=1).to(device)
    counts = []
    for num_steps in (8, 40):
        with waits() as found:
            decode(model, num_steps, num_beams=num_beams, **options)
        counts.append(len(found))
    assert 0 < (counts[1] - counts[0]) / 32 <= 0.25
