"""Queries: selecting entities, following their links and building the result.

Pure: the caller reads the states.
"""

from rote.query.expansion import Place
from rote.query.filling import Filling
from rote.query.links import Absent
from rote.query.request import Cursor, Query, foreign_cursor, moved, parse_query, place_of
from rote.query.result_graph import Overflow, ResultGraph
from rote.query.results import Source, fact_of, query_result, roots_of, values_result, walk_of
from rote.query.schemas import Schemas
from rote.query.walk import Fetch, Root, Truncated, Walk, batches, is_deleted

__all__ = [
    "Absent",
    "Cursor",
    "Fetch",
    "Filling",
    "Overflow",
    "Place",
    "Query",
    "ResultGraph",
    "Root",
    "Schemas",
    "Source",
    "Truncated",
    "Walk",
    "batches",
    "fact_of",
    "foreign_cursor",
    "is_deleted",
    "moved",
    "parse_query",
    "place_of",
    "query_result",
    "roots_of",
    "values_result",
    "walk_of",
]
