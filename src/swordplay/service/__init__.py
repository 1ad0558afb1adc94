"""The HTTP model server (extra ``service``): ``swordplay serve``.

From the outside in: ``api`` (routes) and ``guard`` (limits, tokens) -> ``catalog`` (all models) ->
``host`` (one model: its queue and its published state) -> ``state`` (what a log replays into) ->
``models`` (an estimator). ``writer`` alone writes to the database, ``store`` says what is in it and
whose it is, ``pending`` which predictions wait for labels.
"""
