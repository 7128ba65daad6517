"""The tool that runs a shell command in the workspace, in a sandbox where the system has one."""

from typing import Any

from timothy import hazards
from timothy.cancel import Cancel
from timothy.tools import files, sandbox
from timothy.tools.base import Context, Danger, ToolError
from timothy.tools.process import Limits, Outcome, environment, run

USUAL_S = 60
LONGEST_S = 600
BEGINNING = 500
NO_TEXT = 10
"""An output is no text when one in so many of its characters is none."""

LOST = (
    "The sandbox is gone (bubblewrap was removed, or is not allowed any more), and what was allowed was"
    " allowed in it: no command runs until it is back, or the server was started again."
)
UNPROTECTED = (
    "There is no sandbox on this computer (bubblewrap is not installed, or not allowed): the command can"
    " reach the network, and every file and program of the server's user."
)

_DESCRIBED = {
    "there": "It runs in a sandbox: no network, and no files but the workspace's and the system's programs.",
    "none": UNPROTECTED,
    "lost": LOST,
}
_ASKED = {
    "there": "in the sandbox.",
    "none": f"without a sandbox. {UNPROTECTED}",
    "lost": f"but not now. {LOST}",
}


class RunCommand:
    """One command, alone with the workspace, for a limited time."""

    name = "run_command"
    danger: Danger = "execute"
    native = False
    schema = {
        "type": "object",
        "properties": {
            "command": {
                "type": "string",
                "description": "A command for /bin/sh",
                "minLength": 1,
                "maxLength": 100_000,
            },
            "folder": {"type": "string", "description": "Where to run it; left out: the workspace itself"},
            "time_s": {
                "type": "integer",
                "description": f"After how many seconds it is killed; {USUAL_S} when left out",
                "minimum": 1,
                "maximum": LONGEST_S,
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    }

    @property
    def description(self) -> str:
        return (
            "Run a shell command in the workspace and get its output and exit status. No input can be given,"
            f" and nothing it starts goes on after it. {_DESCRIBED[sandbox.state()]}"
        )

    def unfit(self, input: dict[str, Any]) -> str | None:
        if "\0" in input["command"]:
            return "the command holds a NUL character"
        return files.unfit(input.get("folder", ""))

    def subject(self, input: dict[str, Any]) -> str:
        """The first words of a plain command, else its whole text: a grant never covers what was not seen."""
        command = input["command"].strip()
        words = hazards.heads(command)
        return f"{', '.join(dict.fromkeys(words)) if words else command} in {input.get('folder') or '.'}"

    def rationale(self, input: dict[str, Any]) -> str:
        where = input.get("folder") or "the workspace"
        how = _ASKED[sandbox.state()]
        return f"Runs `{input['command']}` in {where}, where it can change and delete files, {how}"

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        if fault := self.unfit(input):
            raise ToolError(fault)
        folder = "/".join(files.parts(input.get("folder", "")))
        with files.folder(context.workspace, folder):  # refused here, in words, when it is no folder
            pass
        argv = ["/bin/sh", "-c", files.encoded(input["command"]).decode()]
        limits = Limits(time_s=input.get("time_s", USUAL_S))
        state = sandbox.state()
        if state == "lost":
            raise ToolError(LOST)
        if state == "there":
            return _told(_sandboxed(argv, folder, context, cancel, limits), limits)
        env = environment(HOME=str(context.workspace))
        outcome = run(argv, cancel, root=context.workspace, folder=folder, env=env, limits=limits)
        return f"{_told(outcome, limits)}\n[ran without a sandbox]"


def _sandboxed(argv: list[str], folder: str, context: Context, cancel: Cancel, limits: Limits) -> Outcome:
    try:
        inside = sandbox.wrapped(argv, context.workspace, folder)
    except ValueError as error:
        raise ToolError(str(error)) from error
    return run(inside, cancel, root=context.workspace, folder=folder, limits=limits)


def _told(outcome: Outcome, limits: Limits) -> str:
    """The output, and a last line that says how the command ended."""
    too_much = {
        "time": f"killed after {limits.time_s:g} s",
        "output": f"killed: it printed more than {limits.most_output} bytes",
        "processes": f"killed: it ran more than {limits.processes} processes at a time",
        "memory": f"killed: it took more than {limits.whole_memory} bytes of memory",
    }
    violent = outcome.exit is not None and outcome.exit < 0
    ended = f"killed by signal {-(outcome.exit or 0)}" if violent else f"exit status {outcome.exit}"
    how = too_much.get(outcome.reason, ended)
    text = _readable(outcome)
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}[{how}]"


def _readable(outcome: Outcome) -> str:
    """The output; of what is no text only its beginning, as the rest would tell a model nothing."""
    text = outcome.text
    strange = sum(map(text.count, "\0\ufffd"))
    if strange * NO_TEXT <= len(text):
        return text
    return f"{text[:BEGINNING]}\n... no text: {outcome.total} bytes in all, this is how they begin"


TOOL = RunCommand()
