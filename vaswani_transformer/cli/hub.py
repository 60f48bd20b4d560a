# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The sub-command that shares a model: push."""

from __future__ import annotations

import argparse


def _describe_push(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, metavar="DIR", help="folder of a model")
    parser.add_argument("--repo-id", required=True, metavar="USER/NAME", help="repo; it is made if there is none")
    parser.add_argument("--private", action="store_true", help="make a new repo private; refuse a public one")
    parser.add_argument(
        "--revision", metavar="BRANCH", help="branch that receives the commit; made if there is none (default: main)"
    )
    parser.add_argument("--tag", metavar="NAME", help="name for this state of the repo, for example v1")
    parser.add_argument("--commit-message", metavar="TEXT", help="first line of the commit's message")


def _run_push(args: argparse.Namespace) -> None:
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    from ..training.hub import push_model

    names = ("private", "revision", "tag", "commit_message")
    try:
        commit = push_model(args.model, args.repo_id, **{name: getattr(args, name) or None for name in names})
    except HTTPError as error:  # of the HTTP client, and no OSError
        raise OSError(f"The Hub did not take the push: {error}") from error
    place = args.tag or args.revision
    print(f"pushed to {commit.repo_url}{f'/tree/{place}' if place else ''}")


COMMANDS = {"push": (_describe_push, _run_push, "Upload a model to the Hub, with its code and card, in one commit")}
