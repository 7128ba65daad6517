"""Hostile inputs, in tables: paths that lead out, addresses of the inside, sizes and sums without an end."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from timothy.cancel import Cancel
from timothy.tools.base import Context, Tool, ToolError, check

PATHS = (
    "..",
    "../secret.txt",
    "a/../../secret.txt",
    "a/..",
    "./../secret.txt",
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "~/secret.txt",
    "~root/secret.txt",
    "C:/secret.txt",
    "C:\\secret.txt",
    "..\\secret.txt",
    "a\\..\\..\\secret.txt",
    "link.txt",
    "./link.txt",
    "folder-link/secret.txt",
    "folder-link/deeper/secret.txt",
    "up-link/secret.txt",
    "loop",
    "loop/x",
    "dangling",
    "pipe",
    "pipe/x",
    "here.txt/x",
    "folder",
    "nowhere/x.txt/y",
    ".env",
    "folder/.env",
    ".ENV",
    "folder/.env.production",
    ".env. ",
    "id_rsa",
    "folder/id_ed25519",
    "server.pem",
    "SERVER.KEY",
    ".ssh/config",
    "folder/.ssh/known_hosts",
    ".aws/credentials",
    ".git-credentials",
    ".netrc",
    "secrets.yaml",
    "credentials.json",
    "x\0.txt",
    "x\n.txt",
    "x\x7f.txt",
    "\ud800.txt",
    "gpj\u202e.txt",
    "a\u200b/../x",
    "x" * 300,
    "x/" * 600 + "y",
    "",
    ".",
    "./",
)


@pytest.fixture
def trapped(context: Context) -> Context:
    """A workspace full of ways out, beside a secret that must never be seen or changed."""
    root = context.workspace
    (context.home / "secret.txt").write_text("SECRET")
    (context.home / "deeper").mkdir()
    (context.home / "deeper" / "secret.txt").write_text("SECRET")
    (root / "folder").mkdir()
    (root / "here.txt").write_text("here")
    for name in (".env", "id_rsa", "server.pem", "folder/.env", ".netrc", "secrets.yaml"):
        (root / name).write_text("SECRET")
    (root / "link.txt").symlink_to(context.home / "secret.txt")
    (root / "folder-link").symlink_to(context.home, target_is_directory=True)
    (root / "up-link").symlink_to("..", target_is_directory=True)
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to(context.home / "made-by-a-link.txt")
    os.mkfifo(root / "pipe")
    return context


def everything(root: Path) -> dict[str, str]:
    """What is in a folder, links unfollowed."""
    found = {}
    for path in sorted(root.rglob("*")):
        kind = "link" if path.is_symlink() else path.read_text() if path.is_file() else "other"
        found[str(path)] = kind
    return found


def refused(tool: Tool, input: dict[str, Any], context: Context) -> str:
    """The words with which the call is refused, at once."""
    began = time.monotonic()
    problem = check(tool, input)
    if problem is None:
        with pytest.raises(ToolError) as refusal:
            tool.run(input, context, Cancel())
        problem = str(refusal.value)
    assert time.monotonic() - began < 5
    assert "SECRET" not in problem
    return problem


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ascii(path)[:40])
@pytest.mark.parametrize("name", ["read_file", "write_file", "edit_file"])
def test_a_hostile_path_is_refused(name: str, path: str, trapped: Context, tools: dict[str, Tool]) -> None:
    more = {"write_file": {"content": "CHANGED"}, "edit_file": {"old": "S", "new": "CHANGED"}}.get(name, {})
    before = everything(trapped.home)
    made = path in ("nowhere/x.txt/y",) and name == "write_file"
    if made:
        tools[name].run({"path": path, **more}, trapped, Cancel())
        return
    assert refused(tools[name], {"path": path, **more}, trapped)
    after = everything(trapped.home)
    assert {path: kind for path, kind in after.items() if path in before} == before
    assert "CHANGED" not in after.values()


FOLDERS = (
    "..",
    "folder/..",
    "/",
    "/etc",
    "~",
    "folder-link",
    "up-link",
    "loop",
    "pipe",
    "here.txt",
    "no such",
    "a\0b",
)


@pytest.mark.parametrize("folder", FOLDERS, ids=ascii)
@pytest.mark.parametrize("name", ["list_files", "search_files", "run_command"])
def test_a_hostile_folder_is_refused(
    name: str, folder: str, trapped: Context, tools: dict[str, Tool]
) -> None:
    more = {"search_files": {"text": "SECRET"}, "run_command": {"command": "cat *"}}.get(name, {})
    assert refused(tools[name], {"folder": folder, **more}, trapped)


def test_a_search_sees_no_secret_and_follows_no_link(trapped: Context, tools: dict[str, Tool]) -> None:
    (trapped.workspace / "open.txt").write_text("no SECRET here\n")
    found = tools["search_files"].run({"text": "SECRET"}, trapped, Cancel())
    assert found == "open.txt:1: no SECRET here"


def test_a_deep_list_follows_no_link(trapped: Context, tools: dict[str, Tool]) -> None:
    lines = tools["list_files"].run({"deep": True}, trapped, Cancel()).split("\n")
    assert "folder-link@" in lines and "link.txt@" in lines and "loop@" in lines
    assert not any(line.startswith(("folder-link/", "up-link/")) for line in lines)


URLS = (
    "http://127.0.0.1/",
    "http://127.0.0.1:8300/v1/sessions",
    "http://localhost/",
    "http://localhost./",
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://100.64.0.1/",
    "http://192.0.0.8/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:c0a8:101::1]/",
    "http://[fc00::1]/",
    "http://[fd12:3456:789a::1]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25lo]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://\uff11\uff12\uff17.0.0.1/",
    "http://127\u30020\u30020\u30021/",
    "http://\u2460\u2461\u2466.0.0.1/",
    "http://user:password@8.8.8.8/",
    "http://8.8.8.8@127.0.0.1/",
    "http://127.0.0.1\\@8.8.8.8/",
    "http://127.0.0.1#@8.8.8.8/",
    "http://192.88.99.1/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[2001:0:7f00:1::]/",
    "http://8.8.8.8:0/",
    "http://8.8.8.8:99999/",
    "http://8.8.8.8 /",
    "http://8.8.8.8/\r\nHost: 127.0.0.1",
    "http:///etc/passwd",
    "http://",
    "http:127.0.0.1",
    "//127.0.0.1/",
    "127.0.0.1",
    "file:///etc/passwd",
    "FILE:///etc/passwd",
    "ftp://127.0.0.1/",
    "gopher://127.0.0.1:25/",
    "data:text/html,hello",
    "javascript:alert(1)",
    "unix:///var/run/docker.sock",
    "dict://127.0.0.1:11211/",
    "jar:http://127.0.0.1!/",
    "http://[::1",
    "http://[zz]/",
    "http://" + "a" * 300 + "/",
    "http://8.8.8.8/" + "a" * 3000,
    "http://.../",
    "http://no.such.name.invalid/",
    "",
)


@pytest.fixture(scope="module")
def refusals() -> dict[str, str]:
    """How each hostile URL is refused, asked in this process: a process each would be slow."""
    from timothy.tools.children import ChildError, page

    found = {}
    for url in URLS:
        with pytest.raises(ChildError) as refusal:
            page.fetch({"url": url, "whole": False, "raw": False, "trusted": []})
        found[url] = str(refusal.value)
    return found


@pytest.mark.parametrize("url", URLS, ids=lambda url: ascii(url)[:60])
def test_a_hostile_url_is_refused_before_anything_is_asked(url: str, refusals: dict[str, str]) -> None:
    reasons = ("refused", "cannot be found", "names no host", "only http", "is no URL", "too long", "invalid")
    assert any(reason in refusals[url] for reason in reasons), refusals[url]
    assert "did not answer" not in refusals[url] and "cannot be reached" not in refusals[url]


SUMS = (
    "9**9**9",
    "9**9**9**9",
    "10**-10**10",
    "2**100000",
    "2^2^2^2^2^2",
    "factorial(10**6)",
    "factorial(1000)**10",
    "comb(10**9, 5*10**8)",
    "perm(10**6)",
    "(2**9999)*(2**9999)",
    "1/0",
    "1//0",
    "1%0",
    "0**-1",
    "log(0)",
    "sqrt(-1)",
    "(-8)**0.5",
    "exp(1000)",
    "round(5, -10**9)",
    "round(10**3000, -(10**6))",
    "1e308*1e308*0 + factorial(1e9)",
    "round(1e400)",
    "__import__('os').system('id')",
    "().__class__.__bases__",
    "open('/etc/passwd')",
    "exec('1')",
    "lambda: 1",
    "[x for x in range(10**9)]",
    "'a'*10**9",
    "b'a'*10",
    "True + 1",
    "1 if 1 else 2",
    "x",
    "pi.real",
    "(1).__add__(2)",
    "sum(range(10**9))",
    "max()",
    "sqrt(x=4)",
    "sqrt(*[4])",
    "print(1)",
    "f'{1}'",
    "1;2",
    "x:=1",
    "1,2",
    "9" * 1000 + "**9",
    "(" * 500 + "1" + ")" * 499,
    "1+" * 499,
    "\0",
    "1\n+\n",
    "",
    "1" * 1001,
)


@pytest.mark.parametrize("expression", SUMS, ids=lambda text: ascii(text)[:40])
def test_a_hostile_sum_ends_at_once_in_words(
    expression: str, context: Context, tools: dict[str, Tool]
) -> None:
    assert len(refused(tools["calculate"], {"expression": expression}, context)) < 1_000


def test_sizes_have_limits(context: Context, tools: dict[str, Tool]) -> None:
    with open(context.workspace / "huge.txt", "wb") as file:
        file.truncate(3 << 30)  # takes no room on the disk
    assert "larger" in refused(tools["read_file"], {"path": "huge.txt"}, context)
    assert "larger" in refused(tools["edit_file"], {"path": "huge.txt", "old": "x", "new": "y"}, context)
    assert "too long" in refused(tools["write_file"], {"path": "x", "content": "x" * 2_000_001}, context)
    assert "too long" in refused(tools["remember"], {"text": "x" * 2_001}, context)
    assert "too long" in refused(tools["run_command"], {"command": "x" * 100_001}, context)


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "/etc/passwd", "~/x", "C:/x", "a\\b", "x\0", "x" * 1_001]
)
def test_nobody_is_asked_to_allow_a_write_that_is_refused_anyway(path: str, tools: dict[str, Tool]) -> None:
    assert check(tools["write_file"], {"path": path, "content": ""})
    assert check(tools["edit_file"], {"path": path, "old": "a", "new": "b"})
