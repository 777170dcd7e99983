"""A server that answers as a web server with files, and as the Hugging Face hub with data sets."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

Files = dict[str, bytes]
REVISION = "0123456789abcdef0123456789abcdef01234567"


def commit(number: int) -> str:
    """The commit that is revision `number` of a repository."""
    return f"{number:040x}"


@dataclass
class Repository:
    """A data set of the hub.

    Attributes:
        commits: files by commit; the last one is the newest.
        token: that it takes to read it; empty for none.
    """

    commits: dict[str, Files] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Commits by the name of a branch or tag."""
    token: str = ""

    def commit_of(self, revision: str) -> str | None:
        newest = list(self.commits)[-1]
        found = newest if revision == "main" else self.names.get(revision, revision)
        return found if found in self.commits else None


class Publisher:
    """Serves `files` under their names, and `repositories` as the hub does.

    Attributes:
        asked: the path of each request.
        cut: bytes after which a connection is cut that sends a file, once for each name in it.
        ranges: values of ``Range`` headers.
    """

    def __init__(self) -> None:
        self.files: Files = {}
        self.repositories: dict[str, Repository] = {}
        self.asked: list[str] = []
        self.cut: dict[str, int] = {}
        self.ranges: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def publish(self, dataset: str, files: Files, revision: str = REVISION) -> Repository:
        """Add a commit to a repository."""
        repository = self.repositories.setdefault(dataset, Repository())
        repository.commits[revision] = files
        return repository

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def _handler(publisher: Publisher) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            publisher.asked.append(path)
            for start, answer in (("/api/datasets/", self._api), ("/datasets/", self._resolved)):
                if path.startswith(start):
                    return answer(path.removeprefix(start))
            name = path.rsplit("/", 1)[-1]
            if name not in publisher.files:
                return self._send(404, b"", {})
            return self._send(200, publisher.files[name], {})

        def _api(self, path: str) -> None:
            dataset, what, revision = self._repository(path, ("/revision/", "/tree/"))
            found = self._allowed(dataset, revision)
            if found is None:
                return None
            repository, commit = found
            files = repository.commits[commit]
            if what == "/tree/":
                tree = [{"type": "file", "path": n, "size": len(t), "oid": n} for n, t in files.items()]
                return self._send(200, json.dumps(tree).encode(), {})
            body = {"id": dataset, "sha": commit, "siblings": [{"rfilename": name} for name in files]}
            return self._send(200, json.dumps(body).encode(), {})

        def _resolved(self, path: str) -> None:
            dataset, _, rest = self._repository(path, ("/resolve/",))
            revision, _, name = rest.partition("/")
            found = self._allowed(dataset, revision)
            if found is None:
                return None
            files = found[0].commits[found[1]]
            if name not in files:
                return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
            etag = hashlib.sha256(files[name]).hexdigest()
            return self._send(200, files[name], {"ETag": f'"{etag}"', "X-Repo-Commit": found[1]}, name)

        def _repository(self, path: str, marks: tuple[str, ...]) -> tuple[str, str, str]:
            for mark in marks:
                dataset, found, rest = path.partition(mark)
                if found:
                    return dataset, mark, rest.removesuffix("/")
            return path, "", "main"

        def _allowed(self, dataset: str, revision: str) -> tuple[Repository, str] | None:
            """The repository and the commit; None once a refusal was sent."""
            repository = publisher.repositories.get(dataset)
            if repository is None:
                self._send(404, b"", {"X-Error-Code": "RepoNotFound"})
                return None
            if repository.token and self.headers.get("Authorization") != f"Bearer {repository.token}":
                self._send(401, b"", {"X-Error-Code": "GatedRepo"})
                return None
            commit = repository.commit_of(revision.split("/")[0])
            if commit is None:
                self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
                return None
            return repository, commit

        def _send(self, status: int, content: bytes, headers: dict[str, str], name: str = "") -> None:
            begin, asked = 0, self.headers.get("Range", "")
            if asked and status == 200 and self.command == "GET":
                publisher.ranges.append(asked)
                begin = int(asked.removeprefix("bytes=").partition("-")[0])
                status = 206
                headers = {**headers, "Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"}
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(len(content) - begin))
            self.end_headers()
            if self.command == "GET":
                most = publisher.cut.pop(name, None)
                self.wfile.write(content[begin:] if most is None else content[begin : begin + most])
                if most is not None:
                    self.wfile.flush()
                    self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
