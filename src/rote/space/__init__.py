"""The objects that users hold: Store, Space, Transaction."""

from rote.space.space import Space
from rote.space.store import Store
from rote.space.transaction import Transaction

__all__ = ["Space", "Store", "Transaction"]
