"""What the README shows is what its code prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.compile(r"```(python|text|bash)\n(.*?)```", re.DOTALL)


def test_every_block_of_python_prints_the_text_below_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    printed, compared = "", 0
    for kind, content in BLOCKS.findall(README.read_text(encoding="utf-8")):
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(content, "README.md", "exec"), namespace)
            printed = out.getvalue()
        elif kind == "text" and printed:
            assert content.rstrip() == printed.rstrip()
            printed, compared = "", compared + 1
    assert compared >= 2


def test_the_two_commands_stand_near_the_top():
    top = README.read_text(encoding="utf-8")[:2000]
    assert 'pip install ".[app]" && swordplay reproduce' in top
    assert 'pip install -e ".[test]" && pytest' in top
