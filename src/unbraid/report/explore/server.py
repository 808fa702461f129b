# SPDX-License-Identifier: Apache-2.0
"""Serves the explorer of one population to this machine alone.

It listens on 127.0.0.1 and answers only requests whose Host is that address, so that no page of
another site can reach it by a name of its own. Nothing that is asked for is turned into a path:
models, images and tables are looked up by their keys. The one thing that can be changed, the name
of a latent, takes a token that only the page has.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import threading
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from unbraid.core.errors import InputError, UnbraidError
from unbraid.report.explore.exploration import Exploration

HOST = "127.0.0.1"
_MOST_BODY = 10_000
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TOKEN = "X-Unbraid-Token"


class Refused(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Server(ThreadingHTTPServer):
    """The explorer's server; `url` is where a browser finds it."""

    daemon_threads = True
    allow_reuse_address = os.name != "nt"  # where a port that is still used could be taken

    def __init__(
        self,
        exploration: Exploration,
        port: int = 0,
        renamed: Callable[[str], None] = lambda key: None,
    ) -> None:
        """*port* 0 stands for any that is free; *renamed* is told of every name that is kept."""
        self.exploration, self.renamed = exploration, renamed
        self.token = secrets.token_urlsafe(24)
        super().__init__((HOST, port), _Handler)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/"

    def begin(self) -> threading.Thread:
        """Serve in a thread of its own until `shutdown` is called."""
        thread = threading.Thread(target=self.serve_forever, daemon=True, name="unbraid-explore")
        thread.start()
        return thread

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is nothing to tell."""


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    server_version = "unbraid"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        """The page, a model, an image of the data, or a table of codes."""
        self._answer(self._found)

    def do_HEAD(self) -> None:
        """The same without its content."""
        self._answer(self._found)

    def do_POST(self) -> None:
        """A name for a latent."""
        self._answer(self._named)

    def _answer(self, make: Callable[[], tuple[str, bytes]]) -> None:
        try:
            self._check_host()
            kind, content = make()
            self._send(HTTPStatus.OK, kind, content)
        except Refused as refused:
            self._send(refused.status, "text/plain", f"{refused.why}\n".encode())
        except InputError as error:
            self._send(HTTPStatus.BAD_REQUEST, "text/plain", f"{error}\n".encode())
        except (UnbraidError, OSError) as error:  # a damaged file says what to do about it
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", f"{error}\n".encode())
        except Exception as error:  # the page should say that it was this, and others be answered
            told = f"Something failed here that nobody foresaw: {type(error).__name__}: {error}\n"
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", told.encode())
            traceback.print_exc()

    def _check_host(self) -> None:
        """Refuse names that others may have bound to this address (DNS rebinding)."""
        port = self.server.server_port
        name = self.headers.get("Host", "").removesuffix(":80" if port == 80 else "")
        names = (HOST, "localhost")
        if name not in (names if port == 80 else [f"{one}:{port}" for one in names]):
            raise Refused(HTTPStatus.FORBIDDEN, f"This page is at {self.server.url} alone.")

    def _found(self) -> tuple[str, bytes]:
        path = self.path.partition("?")[0]
        exploration = self.server.exploration
        if path == "/":
            return "text/html", exploration.served(self.server.token).encode()
        if match := re.fullmatch(r"/model/([^/]+)", path):
            return "application/octet-stream", exploration.model(self._key(match[1]))
        if match := re.fullmatch(r"/codes/([^/]+)\.csv", path):
            return "text/csv", exploration.codes_csv(self._key(match[1]))
        if match := re.fullmatch(r"/image/(\d{1,6}(?:-\d{1,6})*)", path):
            values = tuple(int(one) for one in match[1].split("-"))
            return "application/octet-stream", exploration.image_of_factors(values)
        raise Refused(HTTPStatus.NOT_FOUND, "There is nothing at this address.")

    def _key(self, quoted: str) -> str:
        key = unquote(quoted)
        if key not in self.server.exploration.population.opened:
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such model, or it cannot be opened.")
        return key

    def _named(self) -> tuple[str, bytes]:
        given = self.headers.get(_TOKEN, "")
        if not hmac.compare_digest(given.encode(), self.server.token.encode()):
            raise Refused(HTTPStatus.FORBIDDEN, "Names can be given on the page alone. Reload it.")
        if self.path != "/names":
            raise Refused(HTTPStatus.NOT_FOUND, "There is nothing at this address.")
        try:
            length = int(self.headers.get("Content-Length", ""))
            if not 0 <= length <= _MOST_BODY:
                raise ValueError
            record = json.loads(self.rfile.read(length))
            key, latent, name = record["model"], record["latent"], record["name"]
            if not isinstance(key, str) or type(latent) is not int:
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            self.close_connection = True
            raise Refused(HTTPStatus.BAD_REQUEST, "This is no name for a latent.") from None
        names = self.server.exploration.rename(self._key(key), latent, name)
        self.server.renamed(key)
        return "application/json", json.dumps(names).encode()

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        text = kind.startswith("text/") or kind == "application/json"
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if text else kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        # The page's own policy stands in its head, with the digests of its scripts.
        policy = "frame-ancestors 'none'" if kind == "text/html" else "default-src 'none'; sandbox"
        self.send_header("Content-Security-Policy", policy)
        if status >= 400:  # what was sent along may not have been read
            self.close_connection = True
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not worth a line."""
