"""Settings that cannot be served with are refused in one sentence."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")

from swordplay.service import commands, settings
from swordplay.service.settings import SettingsError


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"tokens = 5", "tokens must be a list of strings"),
        (b"tokens = [5]", "tokens must be a list of strings"),
        (b"tokens = 'read:x'", "tokens must be a list of strings"),
        (b"queue = inf", "queue must be a whole number"),
        (b"queue = '7'", "queue must be a whole number"),
        (b"queue = true", "queue must be a whole number"),
        (b"queue = 0", "queue must be positive"),
        (b"max_rows = 1.5", "max_rows must be a whole number"),
        (b"port = 1.5", "port must be a whole number"),
        (b"body_seconds = inf", "body_seconds must be positive and finite"),
        (b"body_seconds = nan", "body_seconds must be positive and finite"),
        (b"body_seconds = '1'", "body_seconds must be a number"),
        (b"database = 5", "database must be a string"),
        (b'host = ["a"]', "host must be a string"),
        (b'host = "\xff"', "UTF-8"),
        (b"qeue = 7", "Is it queue?"),
        (b"zzz = 7", "no setting"),
        (b"= 7", "Invalid"),
    ],
)
def test_a_file_that_is_wrong(tmp_path, capsys, text, said):
    file = tmp_path / "s.toml"
    file.write_bytes(text)
    with pytest.raises(SettingsError, match=said.replace("?", "[?]")):
        settings.load(file, {})
    assert commands.main(["serve", "--config", str(file)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("swordplay: ")
    assert told.count("\n") == 1


def test_a_whole_number_will_do_where_any_number_does(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text("body_seconds = 3\npending_days = 0.5")
    found = settings.load(file, {})
    assert (found.body_seconds, found.pending_days) == (3.0, 0.5)
    assert isinstance(found.body_seconds, float)


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("SWORDPLAY_PROT", "Is it port?"),
        ("SWORDPLAY_port", "Is it port?"),
        ("SWORDPLAY_TOKEN", "Is it tokens?"),
        ("SWORDPLAY_ZZZ", "is no setting."),
    ],
)
def test_a_variable_that_is_no_setting(variable, said):
    with pytest.raises(SettingsError) as told:
        settings.load(None, {variable: "1"})
    assert variable in str(told.value)
    assert str(told.value).endswith(said)


def test_other_variables_are_left_alone():
    found = settings.load(None, {"PORT": "1", "SWORDPLAY_NEED": "postgresql"})
    assert found == settings.Settings()
