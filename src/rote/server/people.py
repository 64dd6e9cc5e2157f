"""Routes for people: each with its method, its path, and the parameters that it takes."""

from rote.contract import (
    Branch,
    Commit,
    FactPage,
    Head,
    ScanPage,
    SpaceInfo,
    SpacePage,
    SpaceSummary,
    VerifyReport,
)
from rote.server import blobs, entities, listings, watching
from rote.server.own_rows import AclRead
from rote.server.routes import Route
from rote.server.telling import Health, get_health, get_metrics, get_openapi, get_ready, get_sync

_SPACE = "/v1/spaces/{space}"
_PATCHES = (b"application/json-patch+json", b"application/json")
_ANY: tuple[bytes, ...] = ()

# fmt: off
PEOPLE_ROUTES: tuple[Route, ...] = (
    Route("GET", "/health", "health", get_health, answer=Health, is_immediate=True),
    Route("GET", "/ready", "ready", get_ready, answer=Health, is_immediate=True),
    Route("GET", "/metrics", "metrics", get_metrics),
    Route("GET", "/v1/openapi.json", "openapi", get_openapi),
    Route("GET", "/v1/sync", "hello", get_sync, is_immediate=True),
    Route("GET", "/v1/spaces", "spaces", listings.get_spaces, query=listings.SPACES, answer=SpacePage),
    Route("GET", _SPACE, "space", listings.get_space, answer=SpaceSummary),
    Route("PUT", _SPACE, "space_create", listings.put_space, answer=SpaceInfo),
    Route("GET", f"{_SPACE}/entity", "read", entities.get_entity, query=entities.READ),
    Route("PUT", f"{_SPACE}/entity", "entity_put", entities.put_entity, query=entities.WRITTEN,
          answer=Commit),
    Route("PATCH", f"{_SPACE}/entity", "entity_patch", entities.patch_entity, types=_PATCHES,
          query=entities.WRITTEN, answer=Commit),
    Route("DELETE", f"{_SPACE}/entity", "entity_delete", entities.delete_entity,
          query=entities.WRITTEN, answer=Commit),
    Route("GET", f"{_SPACE}/entities", "scan", listings.get_entities, query=listings.ENTITIES,
          answer=ScanPage),
    Route("GET", f"{_SPACE}/history", "history", listings.get_history, query=listings.HISTORY,
          answer=FactPage),
    Route("GET", f"{_SPACE}/log", "log", listings.get_log, query=listings.LOG,
          answer=dict[str, tuple[Commit, ...]]),
    Route("GET", f"{_SPACE}/branches", "branches", listings.get_branches, query=listings.BRANCHES,
          answer=dict[str, tuple[Branch, ...]]),
    Route("GET", f"{_SPACE}/acl", "acl_read", listings.get_acl, answer=AclRead),
    Route("GET", f"{_SPACE}/verify", "verify", listings.get_verify, answer=VerifyReport),
    Route("GET", f"{_SPACE}/head", "head", listings.get_head, query=listings.HEAD, answer=Head),
    Route("GET", f"{_SPACE}/export", "export", listings.export, query=listings.EXPORT),
    Route("GET", f"{_SPACE}/watch", "watch", watching.watch_route, query=watching.WATCH),
    Route("POST", f"{_SPACE}/watch", "watch", watching.watch_route),
    Route("POST", f"{_SPACE}/blobs", "blob_put", blobs.only_streamed, upload=blobs.PutUpload,
          types=_ANY, query=blobs.PUT),
    Route("PUT", f"{_SPACE}/blobs/{{hash}}", "blob_put", blobs.only_streamed,
          upload=blobs.PutUpload, types=_ANY, query=blobs.PUT),
    Route("GET", f"{_SPACE}/blobs/{{hash}}", "blob_get", blobs.get_blob, query=blobs.GET),
    Route("PUT", f"{_SPACE}/blob_parts/{{hash}}", "adopt_blob", blobs.only_streamed,
          upload=blobs.AdoptUpload, types=_ANY),
)
# fmt: on
