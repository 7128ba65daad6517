"""A TCP proxy that cuts whatever has been silent for too long, as those between a browser and a server do."""

import select
import socket
import threading
import time


class IdleCutter:
    """Forwards connections to `port`; one on which nothing came from the server for `idle_s` is reset."""

    def __init__(self, port: int, idle_s: float) -> None:
        self._target = ("127.0.0.1", port)
        self._idle_s = idle_s
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> "IdleCutter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        threads = []
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                break  # the listener was shut
            threads.append(threading.Thread(target=self._forward, args=(client,), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join(timeout=5)

    def _forward(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server:
            heard = time.monotonic()
            while (left := heard + self._idle_s - time.monotonic()) > 0:
                readable, _, _ = select.select([client, server], [], [], left)
                for source in readable:
                    data = source.recv(65536)
                    if not data:
                        return
                    (server if source is client else client).sendall(data)
                    heard = time.monotonic() if source is server else heard
            self.cuts += 1
