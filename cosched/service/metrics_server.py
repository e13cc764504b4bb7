"""Serves metrics to Prometheus by HTTP, and limits what clients may take.

Clients have no identity, so all share one account: with too many requests, all wait. With
too many connections, the oldest one ends: the server may be a thread of a controller, which
needs the descriptors.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.service.allowance import LONG_REST, Allowance

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

#: Connections that are open at a time; each ends with its answer.
CONNECTIONS_MOST = 32
#: A silent connection ends after this time.
REQUEST_TIMEOUT_S = 10
#: The cost of one request, roughly; all may take a 25th of a CPU in the long run.
_COST_NS = NS_PER_MS
_BURST_NS = 50 * NS_PER_MS


class _Handler(WSGIRequestHandler):
    """Ends silent connections; writes no log of requests."""

    timeout = REQUEST_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:
        return


def _or_one_line(app: WSGIApplication) -> WSGIApplication:
    """Returns the application, which answers an expected error of a collector with its
    line."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return app(environ, start_response)
        except CoschedError as error:
            kind = [("Content-Type", "text/plain; charset=utf-8")]
            start_response("503 Service Unavailable", kind)
            return [f"{error}\n".encode()]

    return answer


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Serves a registry on ``listening``, a listening socket, with a thread per request."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listening: socket.socket, registry: CollectorRegistry) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = listening.getsockname()[:2]
        self.setup_environ()
        self.set_app(_or_one_line(make_wsgi_app(registry)))
        self._costs = Allowance(_BURST_NS, LONG_REST)
        self._open: list[socket.socket] = []  # the oldest one first

    def get_request(self) -> tuple[socket.socket, object]:
        """Accepts a connection after the rest that earlier ones have caused."""
        rest_ns = self._costs.charge(None, _COST_NS, time.monotonic_ns())
        time.sleep(rest_ns / NS_PER_S)
        connection, peer = super().get_request()
        self._open = [each for each in self._open if each.fileno() >= 0]
        if len(self._open) >= CONNECTIONS_MOST:
            with contextlib.suppress(OSError):  # its thread has closed it just now
                self._open.pop(0).shutdown(socket.SHUT_RDWR)  # which ends its thread
        self._open.append(connection)
        return connection, peer

    def handle_error(self, request: object, client_address: object) -> None:
        """Reports an error of a request, unless its client was silent or has gone."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def start(self) -> Callable[[], None]:
        """Serves in a thread; returns a function that ends it."""
        thread = threading.Thread(target=self.serve_forever, daemon=True)
        thread.start()

        def end() -> None:
            self.shutdown()
            self.server_close()
            thread.join()

        return end
