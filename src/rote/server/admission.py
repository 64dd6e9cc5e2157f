"""Who may: lets a principal ask for a command, and gives it a port that does no more."""

from msgspec import Struct

from rote.access.principals import Principal
from rote.contract import Caller, Port
from rote.contract.commands import FindSpace
from rote.errors import Denied, InvalidInput, NotFound
from rote.server.rows import ServerRow


class Admitted(Struct, frozen=True):
    """A principal that was let in."""

    space: str  # the did; empty for a command to the store
    port: Port  # bound to the principal; judges what a command names


class Admission:
    """Lets principals in. Its calls run on the pool."""

    def __init__(self, port: Port) -> None:
        self._port = port

    def admit(self, principal: Principal, row: ServerRow, space: str) -> Admitted:
        """Return the way in, before any argument is looked at; NotFound or Denied without a right.

        space  a name or a did; empty for a command to the store
        """
        try:
            did = self._port.answer("", FindSpace(space)).did if row.space else ""
        except (InvalidInput, Denied):
            raise NotFound(f"there is no space {space!r} in this store", space=space) from None
        return Admitted(did, self._port.for_caller(Caller(principal.author)))
