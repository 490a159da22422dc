"""Model servers, read from the containers that run them.

`read_engine` tells what runs in a container, `cards_on_this_pod` how many cards that needs when nothing else says so,
and `limits` how the server is kept to its share of a card. Everything that differs from engine to engine is data in
`tables`.

Where the estimate of GB belongs: an estimator takes an `Engine`, which carries the model, its parallel sizes, the
context length and the user's own memory settings, together with `unread` and `hidden`, which say how sure it can be.
What it needs besides (data type, quantisation, number of concurrent sequences) are further rows of the tables, whose
flags are passed over today.
"""

from __future__ import annotations

from shared.core.engines.card_count import cards_on_this_pod
from shared.core.engines.engine import Engine, EngineName
from shared.core.engines.read import read_engine

__all__ = ["Engine", "EngineName", "cards_on_this_pod", "read_engine"]
