"""The foundation of a compacted space on its way in: NDJSON, a page a line, streamed."""

from rote.contract import Head
from rote.contract.commands import FoundationIn
from rote.contract.wire import encode_value
from rote.errors import InvalidInput
from rote.server.blobs import BlobUpload, only_streamed
from rote.server.messages import Http, Response
from rote.server.routes import Route
from rote.server.statuses import NDJSON
from rote.server.visits import json


class FoundationUpload(BlobUpload):
    """Pages of a foundation; implements messages.Upload."""

    def __init__(self, http: Http) -> None:
        super().__init__(http, "foundation_in")

    def _finished(self) -> Response:
        if self._upload is None:
            raise InvalidInput("send the pages of a foundation, one on each line")
        return json(encode_value(self._answer(FoundationIn(self._upload))))


FOUNDATION_IN = Route(
    "POST",
    "/v1/spaces/{space}/foundation_in",
    "foundation_in",
    only_streamed,
    upload=FoundationUpload,
    types=(NDJSON,),
    answer=Head,
)
