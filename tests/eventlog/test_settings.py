"""What a person set stays set: beside the log, by the same writer, in the same transactions."""

import pytest

from tests.eventlog.orders import create, fresh
from timothy.eventlog.records import ChangeSettings, Written
from timothy.eventlog.settings import stored


def set_to(**values):
    return ChangeSettings(append_id=fresh(), session_id="", values=values)


def test_a_key_is_set_changed_and_unset_and_the_others_stay(log):
    assert stored(log.reader) == {}
    log.write(set_to(a="1", b="2"))
    log.write(set_to(a="3"))
    assert stored(log.reader) == {"a": "3", "b": "2"}
    log.write(set_to(a=None, never=None))
    assert stored(log.reader) == {"b": "2"}


def test_a_repeated_order_changes_nothing(log):
    order = set_to(a="1", b=None)
    assert log.write(order, order) == [Written(), Written()]
    assert stored(log.reader) == {"a": "1"}


def test_a_setting_that_cannot_be_written_is_refused_alone(log):
    bad, good = set_to(a="kept out", b="\ud800"), set_to(c="1")
    refused, written, made = log.writer.commit([bad, good, create()])
    assert (refused.code, written, log.kinds()) == ("append_refused", Written(), ["session_started"])
    assert stored(log.reader) == {"c": "1"}
    assert isinstance(made, Written)


@pytest.mark.parametrize("value", ["", "ü" * 2000, "' OR 1=1 --", "https://ntfy.example/τόπος"])
def test_a_value_comes_back_as_it_was_set(log, value):
    log.write(set_to(a=value))
    assert stored(log.reader) == {"a": value}
