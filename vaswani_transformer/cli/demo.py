# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The sub-command that shows a model on a page: demo."""

from __future__ import annotations

import argparse
import ipaddress
import socket

from .parsing import add_device, add_model


def _describe_demo(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen at; 0.0.0.0 lets others in"
    )
    parser.add_argument("--port", type=int, default=7860, metavar="N", help="port to listen at")
    parser.add_argument(
        "--n-best", type=int, metavar="N", help="translations shown of each sentence (default: 4, or as many as beams)"
    )
    add_device(parser)


def _run_demo(args: argparse.Namespace) -> None:
    from ..demo import create_demo, import_gradio, launch
    from ..evaluation.loading import load_for_inference

    import_gradio()
    model, tokenizer = load_for_inference(args.model, device=args.device)
    demo = create_demo(model, tokenizer, num_best=args.n_best)
    address = launch(demo, host=args.host, port=args.port)
    warning = "" if _is_this_machine_alone(args.host) else "\nwhoever can reach this machine can open the page"
    try:
        print(f"open {address} in a browser; Ctrl-C ends it{warning}", flush=True)
        demo.block_thread()
    except KeyboardInterrupt:
        pass
    finally:
        demo.close(verbose=False)


def _is_this_machine_alone(host: str) -> bool:
    return ipaddress.ip_address(socket.getaddrinfo(host, None)[0][4][0]).is_loopback


COMMANDS = {"demo": (_describe_demo, _run_demo, "Show a model on a page: its translations and its attention")}
