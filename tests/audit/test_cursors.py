"""Every way to write a cursor: what can be read is followed, what cannot is a bad request."""

import pytest

from tests.fakes.provider import Behaviour, FakeProvider
from tests.stories.server import Server, eventually

OTHER = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("cursor", "first"),
    [
        (None, 1),
        ("0", 1),
        ("1", 2),
        ("TURN:1", 2),
        ("turn:1", 2),  # its id in capitals
        (f"{OTHER}:1", 1),  # another turn's
        ("TURN:99", 1),  # beyond the end
        ("9" * 60, 1),
        ("", None),
        ("x", None),
        ("-1", None),
        ("1.5", None),
        ("TURN:", None),
        (":1", None),
        ("TURN:1:1", None),
    ],
)
def test_a_cursor_is_followed_or_refused(
    server: Server, provider: FakeProvider, cursor: str | None, first: int | None
) -> None:
    provider.behave("fake", Behaviour(tokens=2, hold=1))
    session = server.session()
    turn_id = server.send(session).turn_id
    eventually(lambda: server.read(session)["turn"]["last_seq"] > 2)
    written = cursor and cursor.replace("TURN", turn_id).replace("turn", turn_id.upper())
    live = server.live(session, written)
    if first is None:
        assert (live.status, live.json()["error"]) == (400, "bad_request")
    else:
        assert (live.status, next(iter(live)).event["seq"]) == (200, first)
    provider.release("fake")


def test_a_cursor_in_the_address_wins_over_one_in_the_header(server: Server, provider: FakeProvider) -> None:
    provider.behave("fake", Behaviour(tokens=2, hold=1))
    session = server.session()
    server.send(session).until("text_delta")
    for header, after, first in (("1", None, 2), ("", None, 1), ("1", "0", 1), ("nonsense", "1", 2)):
        live = server.live(session, after, Last_Event_ID=header)
        assert (live.status, next(iter(live)).event["seq"]) == (200, first), (header, after)
    assert server.live(session, Last_Event_ID="nonsense").status == 400
    provider.release("fake")
