"""The way a stop reaches a worker that may be blocked in a socket: a flag and a socket under one lock."""

import contextlib
import socket
import threading


class Cancel:
    """One attempt's cancel handle. The worker attaches what it blocks on; anyone may cancel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._event = threading.Event()

    @property
    def cancelled(self) -> bool:
        """True from the moment `cancel()` was called."""
        return self._event.is_set()

    def attach(self, connection: socket.socket) -> None:
        """Tie `connection` to this handle; it is shut at once if the handle is cancelled already."""
        with self._lock:
            self._socket = connection
            if self._event.is_set():
                _shut(connection)

    def detach(self) -> None:
        """Forget the socket: the attempt is over and its owner closes it."""
        with self._lock:
            self._socket = None

    def cancel(self) -> None:
        """Shut the attached socket, so that a blocked read ends, and end every `wait()`."""
        with self._lock:
            self._event.set()
            if self._socket is not None:
                _shut(self._socket)

    def wait(self, seconds: float) -> bool:
        """Sleep up to `seconds`; True as soon as the handle is cancelled."""
        return self._event.wait(seconds)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the peer was faster
        connection.shutdown(socket.SHUT_RDWR)
