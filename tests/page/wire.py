"""A plain TCP relay that a test can freeze, cut, or close: the network between a page and its server."""

import contextlib
import socket
import threading
from types import TracebackType
from urllib.parse import urlsplit


class Wire:
    """`url` leads to the server while the wire is `up`; `to` may be set to another server's URL."""

    def __init__(self, to: str) -> None:
        self.to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._flows = threading.Event()
        self._flows.set()
        self._up = True
        self.connections = 0

    def __enter__(self) -> "Wire":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()
        self.thaw()
        self._listener.close()

    def freeze(self) -> None:
        """From now on nothing comes from the server; connections stay open."""
        self._flows.clear()

    def thaw(self) -> None:
        """What the server said meanwhile comes now."""
        self._flows.set()

    def cut(self) -> None:
        """Every connection breaks; new ones work."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                _shut(end)

    def down(self) -> None:
        """Every connection breaks, and new ones are refused at once."""
        self._up = False
        self.cut()

    def up(self) -> None:
        """New connections work again."""
        self._up = True

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        address = urlsplit(self.to)
        try:
            if not self._up:
                raise ConnectionRefusedError
            server = socket.create_connection((address.hostname, address.port or 80))
        except OSError:
            client.close()
            return
        self.connections += 1
        with self._lock:
            self._pairs.append((client, server))
        for source, target, waits in ((client, server, False), (server, client, True)):
            threading.Thread(target=self._carry, args=(source, target, waits), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, waits: bool) -> None:
        try:
            while data := source.recv(65536):
                if waits:
                    self._flows.wait()
                target.sendall(data)
        except OSError:
            pass  # the other side, or the test, broke it: both ends are shut below
        finally:
            _shut(source)
            _shut(target)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is shut already
        end.shutdown(socket.SHUT_RDWR)
    end.close()
