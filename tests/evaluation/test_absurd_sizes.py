# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Downloaded models whose files claim absurd sizes: refused in seconds, before memory is taken for them."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import make_model

from vaswani_transformer.evaluation.checkpoint import load_for_inference

REPOSITORY = Path(__file__).resolve().parents[2]

# Loads folders, each in both ways, in a process that may take a GiB more than it has: a model of 10,000 parameters
# needs little, and every absurd size below asks for more. Prints how each ended.
PROGRAM = """
import json, resource, sys
import vaswani_transformer
from transformers import pipeline
from vaswani_transformer.evaluation.checkpoint import load_for_inference

ways = {
    "command": lambda folder: load_for_inference(folder, device="cpu"),
    "pipeline": lambda folder: pipeline("translation", model=folder, device="cpu"),
}
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 2**30,) * 2)
ends = {}
for folder in sys.argv[1:]:
    for way, load in ways.items():
        try:
            load(folder)
            end = "loaded"
        except Exception as error:
            end = f"{type(error).__name__}: {error}"
        ends[f"{folder} {way}"] = end
print(json.dumps(ends))
"""

CLAIMS = {
    "nothing": ({}, "loaded"),
    "vocabulary": ({"vocab_size": 10**12}, "`vocab_size` must be at most"),
    "rows": (
        {"vocab_size": 10**8},
        "weight` must have the shape that the config describes, (100000000, 16), got (300",
    ),
    "inner width": ({"d_ff": 10**8}, "must have the shape that the config describes"),
    "layers": ({"num_encoder_layers": 10**9}, "`num_encoder_layers` must be at most 1000"),
    "width": ({"d_model": 10**9}, "`max_position_embeddings` times `d_model` must be at most"),
    "positions": ({"max_position_embeddings": 10**11}, "`max_position_embeddings` must be at most"),
    "learned": (
        {"position_encoding": "learned", "max_position_embeddings": 10**8},
        "`max_position_embeddings` times `d_model` must be at most",
    ),
}


@pytest.fixture(scope="module")
def ends(tmp_path_factory, tiny_tokenizer):
    """How loading ends, by claim and way."""
    root = tmp_path_factory.mktemp("models")
    for name, (values, _) in CLAIMS.items():
        make_model().save_pretrained(root / name)
        tiny_tokenizer.save_pretrained(root / name)
        config = json.loads((root / name / "config.json").read_text())
        (root / name / "config.json").write_text(json.dumps({**config, **values}))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *(str(root / name) for name in CLAIMS)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {Path(key).name: end for key, end in json.loads(done.stdout.splitlines()[-1]).items()}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["command", "pipeline"])
@pytest.mark.parametrize("claim", CLAIMS)
def test_absurd_config_is_refused_before_memory_is_taken(ends, claim, way):
    assert CLAIMS[claim][1] in ends[f"{claim} {way}"]


@pytest.mark.parametrize("claim", ["length of the header", "shape", "offsets"])
def test_weights_that_claim_more_than_their_file_holds_are_refused(tmp_path, tiny_tokenizer, claim):
    make_model().save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    content = (tmp_path / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    tensor = header["model.shared.weight"]
    if claim == "shape":
        tensor["shape"] = [10**12, 16]
    elif claim == "offsets":
        tensor["data_offsets"][1] = 10**15
    text = json.dumps(header).encode()
    claimed = 2**60 if claim == "length of the header" else len(text)
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", claimed) + text + content[8 + length :])
    with pytest.raises(ValueError, match="must have whole safetensors files, got a broken one"):
        load_for_inference(tmp_path, device="cpu")
