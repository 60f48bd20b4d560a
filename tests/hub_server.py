# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A small Hub on the loopback interface, for the real client: repos with commits, branches and
tags, in memory.

It speaks what `huggingface_hub` asks of a model repo: files travel inside the commit ("regular"
upload mode), so neither LFS nor Xet is used. A token is its user's name, and a user writes in the
namespace of that name only.

A repo called `datasets/OWNER/NAME` is a data set, which `datasets.load_dataset("OWNER/NAME")`
reads.
"""

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

import yaml

NAME = r"(?:datasets/)?[\w.-]+/[\w.-]+"
API = rf"/api/(?:models/|(?=datasets/))({NAME})"


class RefusedError(Exception):
    """A status other than 200, with the code by which the client chooses its error."""

    def __init__(self, status, message, code="", **content):
        super().__init__(message)
        self.status, self.code, self.content = status, code, {"error": message, **content}


@dataclass
class Repo:
    """Commits as whole trees (path to content) by id; branches and tags point to them."""

    name: str
    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def commit(self, branch, tree, message):
        sha = hashlib.sha1(f"{self.name} {len(self.commits)} {message}".encode()).hexdigest()
        self.commits[sha] = tree
        self.messages.append(message)
        self.branches[branch] = sha
        return sha

    def resolve(self, revision):
        sha = self.branches.get(revision) or self.tags.get(revision) or revision
        if sha not in self.commits:
            raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return sha

    def files(self, revision="main"):
        return self.commits[self.resolve(revision)]


def blob_id(content):
    """The id git gives a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class HubServer(ThreadingHTTPServer):
    """The server; as a context manager it runs in a thread.

    `requests` lists what was asked, `repos` what it holds.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.repos, self.requests, self.lock = {}, [], threading.Lock()

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc_info):
        self.shutdown()
        self.server_close()

    def add_repo(self, name, files, private=False):
        """Creates a repo, with one commit if there are files."""
        self.repos[name] = repo = Repo(name, private)
        repo.commit("main", {".gitattributes": b""}, "initial commit")
        if files:
            repo.commit("main", dict(files), "files")
        return repo


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms for the acknowledgment of its headers
    server: HubServer

    def log_message(self, *args):
        pass

    def __getattr__(self, name):
        if name in ("do_GET", "do_HEAD", "do_POST"):
            return self.answer
        raise AttributeError(name)

    def answer(self):
        path = unquote(urlsplit(self.path).path)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.lock:
            self.server.requests.append(f"{self.command} {path}")
            try:
                for pattern, method in _ROUTES:
                    if match := re.fullmatch(pattern, f"{self.command} {path}"):
                        return getattr(self, method)(*match.groups())
                raise RefusedError(404, "Not found")
            except RefusedError as refusal:
                headers = {"X-Error-Code": refusal.code, "X-Error-Message": str(refusal)}
                return self.send(refusal.content, refusal.status, headers)

    def send(self, content, status=200, headers=None):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    # ---- who may do what ----

    @property
    def user(self):
        return self.headers.get("Authorization", "").removeprefix("Bearer ").strip() or None

    def may_write(self, namespace):
        if self.user != namespace:
            raise RefusedError(401, "Invalid username or password.")

    def repo(self, name):
        repo = self.server.repos.get(name)
        if repo is None or (repo.private and self.user != name.split("/")[0]):
            raise RefusedError(404 if self.user else 401, "Repository not found", "RepoNotFound")
        return repo

    def writable(self, name):
        repo = self.repo(name)
        self.may_write(name.split("/")[0])
        return repo

    # ---- routes ----

    def create(self):
        given = json.loads(self.body)
        owner = given.get("organization") or self.user
        self.may_write(owner)
        name = f"{owner}/{given['name']}"
        if name in self.server.repos:
            raise RefusedError(
                409, "You already created this model repo", url=f"{self.server.url}/{name}"
            )
        self.server.add_repo(name, {}, private=given.get("visibility") == "private")
        self.send({"url": f"{self.server.url}/{name}", "name": name})

    def validate(self):
        card = json.loads(self.body)["content"]
        errors = []
        if "license: nonsense" in card:
            errors.append({"message": '"license" must be one of [...]'})
        front_matter = card.split("---")[1] if card.startswith("---") else ""
        languages = (yaml.safe_load(front_matter) or {}).get("language") or []
        languages = [languages] if isinstance(languages, str) else languages
        if not all(re.fullmatch("[a-z]{2,3}", language) for language in languages):
            errors.append({"message": '"language[0]" with value is not valid'})
        self.send({"errors": errors, "warnings": []}, 400 if errors else 200)

    def info(self, name, revision="main"):
        repo = self.repo(name)
        sha = repo.resolve(revision or "main")
        siblings = [{"rfilename": path} for path in repo.commits[sha]]
        self.send(
            {"id": name, "sha": sha, "private": repo.private, "siblings": siblings, "tags": []}
        )

    def refs(self, name):
        repo = self.repo(name)
        kinds = {
            "branches": ("heads", repo.branches),
            "tags": ("tags", repo.tags),
            "converts": ("convert", {}),
        }
        self.send(
            {
                kind: [
                    {"name": n, "ref": f"refs/{folder}/{n}", "targetCommit": sha}
                    for n, sha in refs.items()
                ]
                for kind, (folder, refs) in kinds.items()
            }
        )

    def tree(self, name, revision, folder):
        folder = f"{folder.strip('/')}/" if folder else ""
        files = self.repo(name).files(revision)
        found = [path for path in files if path.startswith(folder)]
        if folder and not found:
            raise RefusedError(404, f"{folder} does not exist", "EntryNotFound")
        entries = {}
        for path in found:
            size, oid = len(files[path]), blob_id(files[path])
            entries[path] = {"type": "file", "path": path, "size": size, "oid": oid}
            for parent in map(str, PurePosixPath(path.removeprefix(folder)).parents[:-1]):
                place, oid = folder + parent, blob_id(parent.encode())
                entries[place] = {"type": "directory", "path": place, "size": 0, "oid": oid}
        is_recursive = re.search("recursive=(1|true)", self.path.lower())
        self.send(
            [
                entry
                for path, entry in entries.items()
                if is_recursive or "/" not in path.removeprefix(folder)
            ]
        )

    def preupload(self, name, revision):
        files = self.writable(name).files(revision)
        self.send(
            {
                "files": [
                    {
                        "path": file["path"],
                        "uploadMode": "regular",
                        "shouldIgnore": False,
                        "oid": blob_id(files[file["path"]]) if file["path"] in files else None,
                    }
                    for file in json.loads(self.body)["files"]
                ]
            }
        )

    def commit(self, name, branch):
        repo = self.writable(name)
        if branch not in repo.branches:
            raise RefusedError(404, f"Invalid rev id: {branch}", "RevisionNotFound")
        tree, message = dict(repo.files(branch)), ""
        for line in self.body.splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "header":
                message = value["summary"]
            elif item["key"] == "file":
                tree[value["path"]] = base64.b64decode(value["content"])
            elif tree.pop(value["path"], None) is None:
                raise RefusedError(404, "A file with this name doesn't exist", "EntryNotFound")
        sha = repo.commit(branch, tree, message)
        self.send(
            {
                "commitUrl": f"{self.server.url}/{name}/commit/{sha}",
                "commitOid": sha,
                "success": True,
            }
        )

    def branch(self, name, branch):
        repo = self.writable(name)
        if branch in repo.branches:
            raise RefusedError(409, f"Reference already exists: {branch}")
        repo.branches[branch] = repo.resolve(
            json.loads(self.body or b"{}").get("startingPoint", "main")
        )
        self.send({})

    def tag(self, name, revision):
        repo, tag = self.writable(name), json.loads(self.body)["tag"]
        if tag == "unlucky":
            raise RefusedError(400, "Invalid rev id")
        if tag in repo.tags:
            raise RefusedError(409, f"Tag reference exists already: {tag}")
        repo.tags[tag] = repo.resolve(revision)
        self.send({})

    def resolve(self, name, revision, path):
        repo = self.repo(name)
        sha = repo.resolve(revision)
        if path not in repo.commits[sha]:
            raise RefusedError(404, "Entry not found", "EntryNotFound")
        content = repo.commits[sha][path]
        self.send(content, headers={"X-Repo-Commit": sha, "ETag": f'"{blob_id(content)}"'})


_ROUTES = [
    (r"POST /api/repos/create", "create"),
    (r"POST /api/validate-yaml", "validate"),
    (rf"GET {API}", "info"),
    (rf"GET {API}/revision/(.+)", "info"),
    (rf"GET {API}/refs", "refs"),
    (rf"GET {API}/tree/([^/]+)(/.*)?", "tree"),
    (rf"POST {API}/preupload/(.+)", "preupload"),
    (rf"POST {API}/commit/(.+)", "commit"),
    (rf"POST {API}/branch/(.+)", "branch"),
    (rf"POST {API}/tag/(.+)", "tag"),
    (rf"(?:GET|HEAD) /({NAME})/resolve/([^/]+)/(.+)", "resolve"),
]
