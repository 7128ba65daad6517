"""How a turn ends: evidence, terminal and outcome from one place."""

import pytest

from timothy.events import Done, Error, Tokens
from timothy.turn.outcome import Shown, answered, ended_by_us, failed

SHOWN = Shown("text", "thoughts", "p", "m", Tokens(1, 2, None), 0.5, 1200)
SILENT = Shown("", "", None, None, None, None, None)
COMMON = {"provider": "p", "model": "m", "duration_ms": 1200, "reasoning": "thoughts"}
PRICE = {"usage": {"input_tokens": 1, "output_tokens": 2, "cached_tokens": None}, "cost": 0.5}


def test_an_answer_is_an_assistant_turn():
    ending = answered(SHOWN, "stop", None)
    assert (ending.evidence.kind, ending.outcome, ending.terminal) == (
        "assistant_turn",
        "completed",
        Done("stop"),
    )
    assert ending.evidence.payload == {"text": "text", "finish_reason": "stop", **COMMON, **PRICE}


@pytest.mark.parametrize("reason", ["length", "content_filter", "max_steps"])
def test_an_answer_cut_by_the_model_is_one_too_with_its_reason(reason):
    ending = answered(SHOWN, "stop", reason)
    assert (ending.evidence.kind, ending.outcome) == ("assistant_turn", "incomplete")
    assert ending.evidence.payload["incomplete"] == reason
    assert ending.terminal == Done("stop")


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("stopped", "stopped"),
        ("server_shutdown", "interrupted"),
        ("interrupted", "interrupted"),
        ("turn_timeout", "failed"),
        ("turn_aborted", "failed"),
        ("stream_cut", "failed"),
        ("gateway_stream_cut", "failed"),
        ("chain_exhausted", "failed"),
        ("empty_response", "failed"),
    ],
)
def test_the_outcome_follows_the_code(code, outcome):
    assert failed(SHOWN, Error(code, "why", True)).outcome == outcome
    assert failed(SILENT, Error(code, "why", True)).outcome == outcome


def test_a_failure_after_text_is_a_final_partial():
    ending = failed(SHOWN, Error("stream_cut", "why", True))
    assert ending.evidence.kind == "pending_state"
    assert ending.evidence.payload == {
        "text": "text",
        "final": True,
        "code": "stream_cut",
        "message": "why",
        **COMMON,
        **PRICE,
    }


def test_a_failure_without_text_is_named_and_keeps_the_thinking():
    ending = failed(Shown("", "thoughts", "p", "m", None, None, 5), Error("bad_request", "why", False))
    assert ending.evidence.kind == "turn_failed"
    assert ending.evidence.payload == {
        "code": "bad_request",
        "message": "why",
        "retryable": False,
        "provider": "p",
        "model": "m",
        "duration_ms": 5,
        "reasoning": "thoughts",
    }


def test_what_is_for_the_chain_alone_does_not_reach_the_viewer():
    error = Error("rate_limited", "why", True, retry_after_s=3, prompt_tokens=4, context_window=5)
    assert failed(SILENT, error).terminal == Error("rate_limited", "why", True)


@pytest.mark.parametrize("code", ["stopped", "turn_timeout", "turn_aborted", "server_shutdown", "strange"])
def test_what_we_end_can_be_tried_again(code):
    assert ended_by_us(code, "why") == Error(code, "why", True)
