"""A webhook and an ntfy topic on a port of their own, which keep what they are told."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

STATUS = {"/broken": 500, "/moved": 301}


class Listener:
    """`calls` are (path, title, body). `/broken` fails, `/moved` is elsewhere, `/silent` never answers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str | None, str]] = []
        self._over = threading.Event()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                listener.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Silence."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Keep what is said, and answer as the path says."""
        body = request.rfile.read(int(request.headers["Content-Length"])).decode()
        self.calls.append((request.path, request.headers["Title"], body))
        if request.path == "/silent":
            self._over.wait()
            return
        request.send_response(STATUS.get(request.path, 204))
        if request.path == "/moved":
            request.send_header("Location", f"{self.url}/new")
        request.end_headers()

    def __enter__(self) -> "Listener":
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self.server.shutdown()
        self.server.server_close()
