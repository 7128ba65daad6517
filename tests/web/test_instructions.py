"""What every model is told first: set, shown, refused, and used from the next turn on."""

import pytest

from actors.instructions import HOUSE
from tests.actors.play import House
from tests.web.conftest import told
from timothy.events import Done, TextDelta

PATH = "/v1/instructions"
NOTHING = {"text": None, "configured": None}


@pytest.fixture
def heard(house, client):
    """What a model is told when a turn begins now."""
    gateway = house.plays([TextDelta("Hi"), Done("stop")])
    session = client.session()

    def ask():
        assert told(client.send(session))[-1]["type"] == "meta"
        return gateway.requests[-1].system

    return ask


def test_instructions_hold_from_the_next_turn_on(client, heard):
    assert client.get(PATH).get_json() == NOTHING and heard() == HOUSE
    assert client.put(PATH, json={"text": "Answer in verse."}).get_json() == {
        **NOTHING,
        "text": "Answer in verse.",
    }
    assert heard() == f"{HOUSE}\n\nAnswer in verse."
    assert client.put(PATH, json={"text": None}).get_json() == NOTHING
    assert heard() == HOUSE


def test_those_of_the_configuration_come_first_and_those_of_the_page_outlive_the_server(tmp_path):
    settings = '[assistant]\ninstructions = "You speak to Ada."\n'
    house = House(tmp_path / "home", settings)
    house.system.instructions.change("Be brief.", house.system.write)
    house.close()
    house = House(tmp_path / "home", settings)
    assert house.system.instructions.prompt() == f"{HOUSE}\n\nYou speak to Ada.\n\nBe brief."
    house.close()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "`text` is missing"),
        ({"text": 7}, "`text` must be a string"),
        ({"text": "  "}, "`text` is empty"),
        ({"text": "x" * 8001}, "at most 8,000"),
    ],
)
def test_what_cannot_be_an_instruction_changes_nothing(client, body, words):
    client.put(PATH, json={"text": "Be brief."})
    answer = client.put(PATH, json=body)
    assert (answer.status_code, answer.get_json()["error"]) == (400, "bad_request")
    assert words in answer.get_json()["message"]
    assert client.get(PATH).get_json()["text"] == "Be brief."
