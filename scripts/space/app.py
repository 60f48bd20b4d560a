# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A Hub Space: translates with the model that the variable MODEL_ID names, or with the one that lies beside this file.

Address and port are those that the Hub sets for a Space; elsewhere they are gradio's own, 127.0.0.1 and 7860.
"""

import os
from pathlib import Path

from vaswani_transformer.demo import create_demo, launch
from vaswani_transformer.evaluation.loading import load_for_inference

model_id = os.environ.get("MODEL_ID")
model, tokenizer = load_for_inference(model_id or Path(__file__).resolve().parent)
demo = create_demo(model, tokenizer, name=model_id or os.environ.get("SPACE_ID"))

if __name__ == "__main__":
    print(f"listening at {launch(demo)}", flush=True)
    demo.block_thread()
