"""Server-sent events, cut from bytes as they arrive.

The format is WHATWG HTML, "Server-sent events", parsed on bytes: only CR, LF and CRLF end a line, so text
may hold U+2028 and its kin. Of an event only its data is kept: every wire names the kind inside it too.
"""

from timothy.errors import MalformedStream

BOM = b"\xef\xbb\xbf"
MAX_FRAME_BYTES = 32 * 1024 * 1024
_FIELDS = (b"data", b"event", b"id", b"retry")


class LineEnds:
    """Turns CRLF and CR into LF, also when a CRLF is split over two pieces."""

    def __init__(self) -> None:
        self.after_cr = False

    def unified(self, data: bytes) -> bytes:
        """`data` with LF as its only line end."""
        if self.after_cr:
            self.after_cr = not data
            if data[:1] == b"\n":
                data = data[1:]
        if b"\r" in data:
            self.after_cr = data[-1:] == b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data


class Framer:
    """Bytes in, in any split; the data of each event out. `strange` is the first line that is no field."""

    whole = False

    def __init__(self) -> None:
        self._ends = LineEnds()
        self._rest = bytearray()
        self._begun = False
        self.strange = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The data of every event that is complete now. Raises MalformedStream for one over 32 MB."""
        if data[:6] == b"data: " and self._begun and data.find(b"\n") == len(data) - 2 and self._plain(data):
            return [data[6:-2]]  # one event in one read, as a token comes
        data = self._ends.unified(data)
        known = len(self._rest)
        if not known and data[-2:] == b"\n\n":
            return self._frames(data[:-2])
        self._rest += data
        end = self._rest.rfind(b"\n\n", max(known - 1, 0))
        if end < 0:
            return self._kept()
        blocks = bytes(self._rest[:end])
        del self._rest[: end + 2]
        return self._frames(blocks)

    def finish(self) -> list[bytes]:
        """The last event, when the stream ended without the blank line after it."""
        block = bytes(self._rest)
        self._rest.clear()
        return self._frames(block)

    def _plain(self, data: bytes) -> bool:
        """True when `data`, which has its first line feed just before its last byte, is one whole event."""
        return data[-1:] == b"\n" and b"\r" not in data and not self._rest and not self._ends.after_cr

    def _kept(self) -> list[bytes]:
        if len(self._rest) > MAX_FRAME_BYTES:
            raise MalformedStream(f"one event is longer than {MAX_FRAME_BYTES} bytes")
        return []

    def _frames(self, blocks: bytes) -> list[bytes]:
        if not self._begun:
            self._begun = True
            blocks = blocks.removeprefix(BOM)
        return [
            frame
            for block in blocks.split(b"\n\n")
            if (frame := block[6:] if block[:6] == b"data: " and b"\n" not in block else self._data(block))
            is not None
        ]

    def _data(self, block: bytes) -> bytes | None:
        """The joined data lines of one event, or None when it has none."""
        second = block.find(b"\n") + 1
        if (
            block[:6] == b"event:"
            and block[second : second + 6] == b"data: "
            and block.find(b"\n", second) < 0
        ):
            return block[second + 6 :]  # what Messages sends, and the hot path there
        lines = []
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            if name == b"data":
                lines.append(value.removeprefix(b" "))
            elif not self.strange and not any(field.startswith(name) for field in _FIELDS):
                self.strange = line
        return b"\n".join(lines) if lines else None
