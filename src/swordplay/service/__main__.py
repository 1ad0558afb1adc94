"""``python -m swordplay.service serve``: the server without the rest of the command line."""

from __future__ import annotations

import sys

from swordplay.service.commands import main

raise SystemExit(main(sys.argv[1:]))
