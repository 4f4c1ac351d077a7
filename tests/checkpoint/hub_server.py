"""A hub on loopback: the endpoints that huggingface_hub uses for listings and files.

Two HTTP servers. The hub answers `/api/models/...` with listings and `/org/name/resolve/REV/FILE`
with the metadata headers of a hub: small files through a relative redirect, safetensors through a
redirect to the CDN, which is the second server (another origin, where no token may arrive) and
serves ranges. `faults` makes a path misbehave. Everything that arrives is in `log`.
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


def commit_of(files: Mapping[str, bytes]) -> str:
    """The commit of a set of files, 40 hex digits."""
    joined = b"".join(name.encode() + b"\0" + raw for name, raw in sorted(files.items()))
    return hashlib.sha1(joined).hexdigest()


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    range: str
    token: str


@dataclass
class Fault:
    """How a file of the CDN misbehaves, the first `times` times.

    `status` with `headers`: answer with that instead. `cut`: promise all, send this many bytes,
    hang up. `pause`: seconds before the answer. `drip`: seconds between single bytes.
    `whole`: ignore Range. `shift`: claim a range that starts this much later.
    """

    times: int = 10**6
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    pause: float = 0.0
    drip: float = 0.0
    whole: bool = False
    shift: int = 0
    no_total: bool = False


class Hub:
    """A repository `org/name` and its servers; `with Hub(files) as hub`."""

    repo = "org/name"

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.log: list[Request] = []
        self.faults: dict[str, Fault] = {}
        self.sent: dict[str, int] = {}
        self.gated = False
        self.private = False
        self.missing = False
        self.token = ""  # the token that may read; "" lets everybody read
        self.huge: dict[str, int] = {}  # size of files whose tail is generated
        self.update(files)
        self._hub = _serve(self._answer_hub)
        self._cdn = _serve(self._answer_cdn)

    def update(self, files: Mapping[str, bytes]) -> None:
        """Push a new commit to main."""
        self.files = dict(files)
        self.commit = commit_of(files)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._hub.server_address[1]}"

    @property
    def cdn_url(self) -> str:
        return f"http://127.0.0.1:{self._cdn.server_address[1]}"

    def __enter__(self) -> "Hub":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop answering: the ports refuse connections from now on."""
        for server in (self._hub, self._cdn):
            server.shutdown()
            server.server_close()

    def requests(self, part: str) -> list[Request]:
        """What arrived for paths that contain `part`."""
        return [request for request in self.log if part in request.path]

    def _answer_hub(self, handler: "Handler", path: str) -> None:
        if path.startswith("/blobs/"):  # as a proxy, it is asked for the CDN's files too
            return self._answer_cdn(handler, path)
        if path.startswith("/api/resolve-cache/"):
            return self._file(handler, path.rpartition("/")[2])
        if path.startswith("/api/models/"):
            repo, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            if not self._admitted(handler, repo, revision or "main", listing=True):
                return None
            siblings = [{"rfilename": name} for name in self.files]
            answer = {"id": repo, "sha": self.commit, "siblings": siblings}
            return handler.send(200, json.dumps(answer).encode(), {}, "application/json")
        repo, _, rest = path.lstrip("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        if not self._admitted(handler, repo, revision, listing=False):
            return None
        if name not in self.files:
            return handler.error(404, "EntryNotFound", {"X-Repo-Commit": self.commit})
        if fault := self._fault(f"hub:{name}"):
            return handler.misbehave(fault, self.files[name])
        about = {"X-Repo-Commit": self.commit, "ETag": self._etag(name)}
        if name.endswith(".safetensors"):
            size = str(self.huge.get(name, len(self.files[name])))
            about |= {"X-Linked-Size": size, "X-Linked-ETag": self._etag(name)}
            return handler.send(302, b"", about | {"Location": f"{self.cdn_url}/blobs/{name}"})
        place = f"/api/resolve-cache/models/{repo}/{self.commit}/{name}"
        return handler.send(307, b"", about | {"Location": place})

    def _admitted(self, handler: "Handler", repo: str, revision: str, *, listing: bool) -> bool:
        """Whether the request may go on; otherwise it was answered as the real hub does."""
        token = handler.headers.get("Authorization", "").removeprefix("Bearer ")
        if repo != self.repo or self.missing:
            handler.error(401 if not token else 404, "" if not token else "RepoNotFound")
        elif token and self.token and token != self.token:
            handler.error(
                401, "", {"X-Error-Message": "Invalid credentials in Authorization header"}
            )
        elif self.private and token != self.token:
            handler.error(401, "RepoNotFound")
        elif self.gated and not listing and token != self.token:
            handler.error(403 if token else 401, "GatedRepo")
        elif unquote(revision) not in ("main", self.commit):
            handler.error(404, "RevisionNotFound")
        elif fault := self._fault("api") if listing else None:
            handler.misbehave(fault, b"")
        else:
            return True
        return False

    def _etag(self, name: str) -> str:
        return f'"{hashlib.sha1(self.files[name]).hexdigest()}"'

    def _file(self, handler: "Handler", name: str) -> None:
        about = {"X-Repo-Commit": self.commit, "ETag": self._etag(name)}
        if fault := self._fault(name):
            return handler.misbehave(fault, self.files[name], about)
        return handler.send(200, self.files[name], about)

    def _fault(self, key: str) -> Fault | None:
        fault = self.faults.get(key)
        if fault is None or fault.times <= 0:
            return None
        fault.times -= 1
        return fault

    def _answer_cdn(self, handler: "Handler", path: str) -> None:
        name = path.removeprefix("/blobs/")
        content = self.files[name]
        fault = self._fault(name) or Fault()
        total = self.huge.get(name, len(content))
        start, stop = 0, total
        if handler.asked and not fault.whole:
            first, _, last = handler.asked.removeprefix("bytes=").partition("-")
            start, stop = int(first), min(int(last) + 1, total) if last else total
            if start >= total:
                return handler.send(416, b"", {"Content-Range": f"bytes */{total}"})
        partial = bool(handler.asked) and not fault.whole
        about: dict[str, str] = {}
        if partial:
            size = "*" if fault.no_total else str(total)
            about["Content-Range"] = f"bytes {start + fault.shift}-{stop - 1}/{size}"
        if fault.status or fault.cut is not None or fault.pause or fault.drip:
            return handler.misbehave(fault, content[start:stop], about, 206 if partial else 200)
        handler.begin(206 if partial else 200, stop - start, about)
        self.sent[name] = 0
        while start < stop:
            block = content[start : min(stop, start + 65_536)] or bytes(min(65_536, stop - start))
            handler.wfile.write(block)
            self.sent[name] += len(block)
            start += len(block)
        return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer: Callable[["Handler", str], None]
    record: Callable[[Request], None]

    def do_GET(self) -> None:
        self.asked = self.headers.get("Range", "")
        path = unquote(urlsplit(self.path).path)
        token = self.headers.get("Authorization", "")
        type(self).record(Request(self.command, path, self.asked, token))
        try:
            type(self).answer(self, path)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client hung up, as it should on a whole file

    do_HEAD = do_GET

    def begin(self, status: int, length: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def send(
        self, status: int, body: bytes, headers: Mapping[str, str], kind: str = "text/plain"
    ) -> None:
        self.begin(status, len(body), {"Content-Type": kind, **headers})
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status: int, code: str, headers: Mapping[str, str] | None = None) -> None:
        named = {"X-Error-Code": code} if code else {}
        self.send(status, b"", {"X-Error-Message": code or "no", **named, **(headers or {})})

    def misbehave(
        self,
        fault: Fault,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        status: int = 200,
    ) -> None:
        time.sleep(fault.pause)
        if fault.status:
            return self.send(fault.status, b"", fault.headers)
        self.begin(status, len(body), headers or {})
        if self.command == "HEAD":
            return None
        if fault.drip:
            for byte in body:
                time.sleep(fault.drip)
                self.wfile.write(bytes([byte]))
            return None
        self.wfile.write(body if fault.cut is None else body[: fault.cut])
        if fault.cut is not None:
            self.close_connection = True
        return None

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the terminal."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the tests."""


def _serve(answer: Callable[[Handler, str], None]) -> _Server:
    owner = answer.__self__  # type: ignore[attr-defined]
    kind = type("Bound", (Handler,), {
        "answer": staticmethod(answer),
        "record": staticmethod(owner.log.append),
    })  # fmt: skip
    server = _Server(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server
