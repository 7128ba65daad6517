"""The configuration: whatever is wrong stops the start, with the file, the key and what is allowed."""

import pytest

from timothy import config
from timothy.config import Config, chain, default_home, load, seconds
from timothy.errors import ConfigError

PROVIDER = """
[[providers]]
name = "one"
driver = "openai"
base_url = "http://127.0.0.1:1/v1"
model = "m"
"""


@pytest.fixture
def file(tmp_path):
    """Writes the configuration and gives its path."""

    def write(text):
        path = tmp_path / "timothy.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refusal(tmp_path, environment=None, file=None):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, file, environment or {})
    return caught.value.message


def test_nothing_at_all_means_the_documented_numbers_and_the_embedded_model(tmp_path):
    loaded = load(tmp_path, None, {})
    assert loaded == Config()
    assert (loaded.turn.ceiling_s, loaded.turn.permission_s, loaded.turn.checkpoint_s) == (1800, 600, 1.0)
    assert (loaded.turn.max_text_mb, loaded.stream.heartbeat_s, loaded.server.max_body_mb) == (32, 20, 8)
    assert loaded.usage.currency == "USD"
    assert chain(loaded) == (config.EMBEDDED,)


def test_the_file_in_the_home_is_read_and_another_one_only_when_it_is_named(tmp_path, file):
    file("[turn]\nceiling_s = 700\n")
    other = tmp_path / "other.toml"
    other.write_text("[turn]\nceiling_s = 800\n")
    assert load(tmp_path, None, {}).turn.ceiling_s == 700
    assert load(tmp_path, other, {}).turn.ceiling_s == 800


def test_a_named_file_must_be_there(tmp_path):
    message = refusal(tmp_path, file=tmp_path / "absent.toml")
    assert "absent.toml" in message and "cannot be read" in message


@pytest.mark.parametrize(
    ("text", "key", "allowed"),
    [
        ("colour = 1", "(top level)", "providers"),
        ("[turn]\ncolour = 1", "turn", "ceiling_s"),
        ('[turn]\nceiling_s = "long"', "turn.ceiling_s", "permission_s"),
        ("[turn]\nceiling_s = true", "turn.ceiling_s", "permission_s"),
        ("[turn]\ncheckpoint_s = 0", "turn.checkpoint_s", "above 0"),
        ("[turn]\nmax_text_mb = -1", "turn.max_text_mb", "above 0"),
        ("[turn]\nceiling_s = nan", "turn.ceiling_s", "above 0"),
        ("[turn]\nceiling_s = inf", "turn.ceiling_s", "above 0"),
        ("[stream]\nheartbeat_s = 0", "stream.heartbeat_s", "above 0"),
        ("[stream]\nbeat = 0", "stream", "heartbeat_s"),
        ('[server]\nhosts = "a"', "server.hosts", "max_body_mb"),
        ("[server]\nmax_body_mb = 0", "server.max_body_mb", "above 0"),
        ("[usage]\ncurrency = 3", "usage.currency", "currency"),
        ("[tools]\nallow = [1]", "tools.allow", "workspace"),
        ("[[mcp]]\nname = 1", "mcp", "command"),
        ("[[providers]]\nname = 'a'", "providers", "driver is one of openai, anthropic, ollama, local"),
        (PROVIDER.replace("openai", "cobol"), "providers", "anthropic"),
        (PROVIDER + "colour = 1", "providers", "price_in"),
        (PROVIDER.replace("http://", "ftp://"), "base_url", "http://"),
        (PROVIDER.replace('model = "m"', ""), "model", "must name a model"),
        (PROVIDER.replace('"one"', '""'), "providers", "a name of its own"),
        (PROVIDER + PROVIDER, "providers", "a name of its own"),
        (PROVIDER + "idle_timeout_s = 0", "idle_timeout_s", "above 0"),
        (PROVIDER + "idle_timeout_s = inf", "idle_timeout_s", "above 0"),
        (PROVIDER + "first_content_timeout_s = -1", "first_content_timeout_s", "above 0"),
        (PROVIDER + "connect_timeout_s = nan", "connect_timeout_s", "above 0"),
        (PROVIDER + "max_tokens = 0", "max_tokens", "above 0"),
        (PROVIDER + "context_window = -4", "context_window", "above 0"),
        (PROVIDER + "temperature = 2.5", "temperature", "0 to 2"),
        (PROVIDER + "temperature = nan", "temperature", "0 to 2"),
        (PROVIDER.replace("openai", "anthropic") + "temperature = 1", "temperature", "take the key out"),
        ('[titles]\nby = "dice"', "titles.by", "by is one of first_words, model"),
        ("[assistant]\ninstructions = 1", "assistant.instructions", "instructions"),
    ],
)
def test_a_bad_key_or_value_names_the_file_the_key_and_what_is_allowed(tmp_path, file, text, key, allowed):
    path = file(text)
    message = refusal(tmp_path)
    assert str(path) in message and key in message and allowed in message


@pytest.mark.parametrize("content", [b"[turn", b"a = \xff", b"= 3"])
def test_what_is_no_toml_is_named_as_such(tmp_path, content):
    (tmp_path / "timothy.toml").write_bytes(content)
    message = refusal(tmp_path)
    assert "timothy.toml" in message and "TOML" in message


@pytest.mark.parametrize("ceiling", ["600", "10m", "599.5", "1m"])
def test_the_ceiling_must_exceed_the_permission_park(tmp_path, ceiling):
    message = refusal(tmp_path, {"TURN_TIMEOUT": ceiling})
    assert "turn.ceiling_s (TURN_TIMEOUT)" in message and "must exceed turn.permission_s, 600 s" in message


def test_a_shorter_park_allows_a_shorter_ceiling(tmp_path, file):
    file("[turn]\npermission_s = 60\nceiling_s = 90")
    assert load(tmp_path, None, {}).turn.ceiling_s == 90
    file("[turn]\npermission_s = 1900")
    assert "must exceed" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("45m", 2700),
        ("2700", 2700),
        ("90s", 90),
        ("1h", 3600),
        (" 1.5m ", 90),
        ("0.5", 0.5),
        ("1h30m", 5400),
        ("2m30s", 150),
    ],
)
def test_a_duration_is_seconds_or_a_number_with_its_unit(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "m", "45 m", "-5", "1d", "1e3", "nan", "45mm", "30m1h", "1h30"])
def test_what_is_no_duration_is_refused_with_an_example(tmp_path, text):
    with pytest.raises(ConfigError, match="45m"):
        seconds(text)
    if text:
        message = refusal(tmp_path, {"TURN_TIMEOUT": text})
        assert "TURN_TIMEOUT" in message and "45m" in message


def test_the_environment_overrides_the_file_key_by_key(tmp_path, file):
    file("[turn]\nceiling_s = 700\ncheckpoint_s = 2.0\n[stream]\nheartbeat_s = 5\n")
    environment = {
        "TIMOTHY_TURN_CEILING_S": "20m",
        "TIMOTHY_SERVER_HOSTS": "a.example, b.example,",
        "TIMOTHY_SERVER_MAX_BODY_MB": "2.5",
        "TIMOTHY_USAGE_CURRENCY": "EUR",
    }
    loaded = load(tmp_path, None, environment)
    assert (loaded.turn.ceiling_s, loaded.turn.checkpoint_s) == (1200, 2.0)
    assert loaded.stream.heartbeat_s == 5
    assert loaded.server.hosts == ("a.example", "b.example")
    assert (loaded.server.max_body_mb, loaded.usage.currency) == (2.5, "EUR")


def test_turn_timeout_is_the_last_word_on_the_ceiling(tmp_path):
    environment = {"TIMOTHY_TURN_CEILING_S": "20m", "TURN_TIMEOUT": "45m"}
    assert load(tmp_path, None, environment).turn.ceiling_s == 2700
    assert load(tmp_path, None, {"TURN_TIMEOUT": ""}).turn.ceiling_s == 1800


@pytest.mark.parametrize(
    "environment", [{"TIMOTHY_SERVER_MAX_BODY_MB": "much"}, {"TIMOTHY_STREAM_HEARTBEAT_S": "often"}]
)
def test_a_bad_value_in_the_environment_names_its_variable(tmp_path, environment):
    (variable,) = environment
    assert variable in refusal(tmp_path, environment)


def test_a_keys_variable_must_be_set_when_it_is_named(tmp_path, file):
    file(PROVIDER + 'api_key_env = "NO_SUCH_KEY"')
    assert "NO_SUCH_KEY" in refusal(tmp_path)
    environment = {"NO_SUCH_KEY": "secret"}
    (entry,) = load(tmp_path, None, environment).providers
    assert entry.api_key(environment) == "secret"
    assert "secret" not in repr(entry)


def test_silence_is_borne_longer_from_a_local_model(tmp_path, file):
    file(PROVIDER + PROVIDER.replace('"one"', '"two"').replace("openai", "ollama"))
    remote, local = load(tmp_path, None, {}).providers
    assert (remote.silence_s, remote.first_content_s) == (300, 300)
    assert (local.silence_s, local.first_content_s) == (900, 900)


def test_the_home_is_the_variables_or_the_platforms(tmp_path):
    assert default_home({"TIMOTHY_HOME": str(tmp_path)}) == tmp_path
    assert default_home({}).name == "timothy"
