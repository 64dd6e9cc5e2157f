"""Queries against a naive one that shares no code with them, on random graphs and schemas."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rote.opening import open as open_store
from rote.testing.query_graphs import Graphs, naive_pages, pages_of
from tests.lanes import examples

SEEDS = st.integers(0, 2**48)


@given(SEEDS)
@settings(max_examples=examples(60, 2_000))
def test_a_query_finds_what_the_naive_one_finds_on_every_branch_and_at_every_version(
    seed: int,
) -> None:
    graphs = Graphs(seed)
    with open_store(":memory:", durability="os") as store:
        space = store.space("graph")
        graphs.write(space, 8)
        for _ in range(6):
            branch = graphs.random.choice(space.branches())
            view = space.on(branch.name).at(graphs.random.randint(0, space.version))
            query = graphs.paged_query()
            assert pages_of(view, query) == naive_pages(view, graphs.ids, query)
