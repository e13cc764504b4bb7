"""Answers the browser: the page, its parts, news, and ``why``; as a WSGI application.

All users of the machine reach its port. So each path begins with a token that only the
user has. A page of another site does not have it. Besides, a request must name this machine
as its host, so a name that a site gives to 127.0.0.1 does not help the site.
"""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from cosched.core.decoding import Malformed, host_of, parse_integer
from cosched.core.errors import CoschedError
from cosched.observe.page.shared import shared_asset

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

#: So many answers of ``why`` are made at a time; more are refused.
WHY_MOST = 2
#: Names of this machine for its own browser, and for one behind ``ssh -L``.
HOSTS = ("127.0.0.1", "localhost", "[::1]")
_LONGEST_QUERY = 200
_VERSION_MOST = (1 << 53) - 1
_SHARED = ("base.css", "elements.js", "spans.js", "uPlot.min.css", "uPlot.iife.min.js")
_OWN = (
    "dashboard.css",
    "feed.js",
    "rows.js",
    "lanes.js",
    "jobs.js",
    "queue.js",
    "dashboard.js",
)
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_HEADERS = [
    ("Cache-Control", "no-store"),
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
]


class _Refused(Exception):
    """A request without an answer. status: of HTTP. line: for the user."""

    def __init__(self, status: str, line: str) -> None:
        super().__init__(line)
        self.status = status


class Pages:
    """The application. token: begins each path. news: returns the changes after a version
    of a run. why: explains a job; raises CoschedError."""

    def __init__(
        self,
        token: str,
        news: Callable[[str, int], bytes],
        why: Callable[[str], Mapping[str, Any]],
    ) -> None:
        self._token = token
        self._news = news
        self._why = why
        self._explaining = threading.BoundedSemaphore(WHY_MOST)
        self._files = _read_files()

    def __call__(
        self, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answers one request."""
        try:
            status, (kind, body) = "200 OK", self._answer(environ)
        except _Refused as refused:
            status, kind, body = refused.status, "text/plain", f"{refused}\n".encode()
        length = ("Content-Length", str(len(body)))
        content = ("Content-Type", f"{kind}; charset=utf-8")
        start_response(status, [content, length, *_HEADERS])
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]

    def _answer(self, environ: WSGIEnvironment) -> tuple[str, bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            raise _Refused("405 Method Not Allowed", "the dashboard changes nothing")
        host = environ.get("HTTP_HOST", "")
        if host_of(host) not in HOSTS and host not in HOSTS:
            raise _Refused("421 Misdirected Request", "use the name localhost")
        token, *rest = environ["PATH_INFO"].removeprefix("/").split("/")
        if not hmac.compare_digest(token.encode("latin-1"), self._token.encode()):
            raise _Refused(
                "404 Not Found", "use the address that cosched dashboard printed"
            )
        query = environ.get("QUERY_STRING", "")
        if len(query) > _LONGEST_QUERY:
            raise _Refused("414 URI Too Long", "the query is too long")
        asked = {name: values[0] for name, values in parse_qs(query).items()}
        match rest:
            case ["news"]:
                return "application/json", self._give_news(asked)
            case ["why"]:
                return "application/json", self._explain(asked.get("job", ""))
            case [name] if name in self._files:
                return self._files[name]
        raise _Refused("404 Not Found", "no such page")

    def _give_news(self, asked: Mapping[str, str]) -> bytes:
        try:
            after = parse_integer(asked.get("after", "0"), "after", 0, _VERSION_MOST)
        except Malformed as error:
            raise _Refused("400 Bad Request", str(error)) from None
        return self._news(asked.get("run", ""), after)

    def _explain(self, job: str) -> bytes:
        if not self._explaining.acquire(blocking=False):
            raise _Refused("503 Service Unavailable", "other jobs are explained; try again")
        try:
            return json.dumps(self._why(job)).encode()
        except CoschedError as error:
            return json.dumps({"text": str(error), "job": None}).encode()
        finally:
            self._explaining.release()


def _read_files() -> dict[str, tuple[str, bytes]]:
    """Returns type and content of each file of the page, by the last part of its path."""
    folder = files("cosched.dashboard") / "assets"
    texts = {name: shared_asset(name) for name in _SHARED}
    texts |= {name: (folder / name).read_text("utf-8") for name in _OWN}
    texts[""] = (folder / "dashboard.html").read_text("utf-8")
    return {
        name: (_TYPES[name.rpartition(".")[2] or "html"], text.encode())
        for name, text in texts.items()
    }
