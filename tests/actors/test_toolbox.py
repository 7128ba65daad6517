"""The tools of a running server: side by side, and in nobody's way."""

import threading

import pytest

from actors.toolbox import Toolbox
from tests.actors.test_native import real_sleep
from timothy.cancel import Cancel
from timothy.config import Config
from timothy.events import ToolCall
from timothy.tools.base import ToolError


@pytest.fixture
def toolbox(tmp_path):
    toolbox = Toolbox(Config(), tmp_path)
    yield toolbox
    toolbox.close()


def test_four_tools_on_a_slow_disk_work_side_by_side(toolbox):
    working, most, ended = [], [], []

    class Slow:
        """A tool whose disk takes its time."""

        name, native = "slow", True

        def run(self, input, context, cancel):
            working.append(1)
            most.append(len(working))
            real_sleep(0.1)
            working.pop()
            return "done"

    toolbox.tools = {"slow": Slow()}
    call = ToolCall("c", "slow", {})
    callers = [
        threading.Thread(target=lambda: ended.append(toolbox.run(call, "s", Cancel()))) for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert ended == ["done"] * 4
    assert max(most) == 4


def test_a_tool_that_went_is_named(toolbox):
    with pytest.raises(ToolError, match="not there any more"):
        toolbox.run(ToolCall("c", "server.tool", {}), "s", Cancel())
