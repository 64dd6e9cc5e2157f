"""Transactions of a session: they see one view to their end, and become one commit of its stack."""

from types import TracebackType

from rote.sessions.making import Making
from rote.sessions.pending import Fate, Maker, Pending
from rote.sessions.views import ViewPort
from rote.space import Space, Transaction
from rote.space.transaction_port import TransactionPort
from rote.values import Json


class SessionTransaction(Transaction):
    """Reads and writes in a `with` block; an exception inside discards the writes.

    Its reads are noted, and so are the own commits that they have seen: when one of these is
    rejected, so is this one.
    """

    def __init__(
        self,
        making: Making,
        port: TransactionPort,
        view: ViewPort,
        space: Space,
        *,
        key: str | None,
        meta: Json,
        maker: Maker | None = None,
        again: Fate | None = None,
    ) -> None:
        """maker  who makes its commit again
        again  the fate that its commit has from now on; None: a new one
        """
        super().__init__(port, space, key=key, meta=meta)
        self._making = making
        self._seen = view
        self._maker = maker
        self._again = again
        self.pending: Pending | None = None  # set at the end; None when there was nothing to write

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._port.end()
        try:
            if error is None:
                fate = self._making.commit(
                    self._port, self._seen, key=self._key, meta=self._meta,
                    maker=self._maker, again=self._again,
                )  # fmt: skip
                self.pending = None if fate is None else fate.pending
        finally:
            self._making.replica.end_transaction(self._port)
