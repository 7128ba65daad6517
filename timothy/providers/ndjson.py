"""JSON lines, cut from bytes as they arrive; and a body that is one JSON value, which comes at its end."""

from timothy.errors import MalformedStream
from timothy.providers.sse import BOM, MAX_FRAME_BYTES, LineEnds


class Framer:
    """Bytes in, in any split; each line that is not blank out."""

    whole = False
    strange = b""

    def __init__(self) -> None:
        self._ends = LineEnds()
        self._rest = bytearray()
        self._begun = False

    def feed(self, data: bytes) -> list[bytes]:
        """Every line that is complete now. Raises MalformedStream for one over 32 MB."""
        data = self._ends.unified(data)
        end = data.rfind(b"\n")
        self._rest += data
        if end < 0:
            if len(self._rest) > MAX_FRAME_BYTES:
                raise MalformedStream(f"one line is longer than {MAX_FRAME_BYTES} bytes")
            return []
        complete = len(self._rest) - len(data) + end
        lines = bytes(self._rest[:complete])
        del self._rest[: complete + 1]
        return self._lines(lines)

    def finish(self) -> list[bytes]:
        """The last line, when the stream ended without a line end after it."""
        line = bytes(self._rest)
        self._rest.clear()
        return self._lines(line)

    def _lines(self, lines: bytes) -> list[bytes]:
        if not self._begun:
            self._begun = True
            lines = lines.removeprefix(BOM)
        return [line for line in lines.split(b"\n") if line and not line.isspace()]


class Whole:
    """A body that is no stream: a server that ignored `stream`, or an error's text."""

    whole = True
    strange = b""

    def __init__(self) -> None:
        self._body = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Nothing yet. Raises MalformedStream for a body over 32 MB."""
        self._body += data
        if len(self._body) > MAX_FRAME_BYTES:
            raise MalformedStream(f"the answer is longer than {MAX_FRAME_BYTES} bytes")
        return []

    def finish(self) -> list[bytes]:
        """The body."""
        return [bytes(self._body).removeprefix(BOM)]
