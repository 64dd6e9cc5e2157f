"""Searches in a memory: lexical-1 on one state, with the records behind it, and nothing written."""

from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from typing import Any

import pytest

from rote.bridges import write_export
from rote.contract.commands import Command, Postings, Read
from rote.errors import Conflict, InvalidInput, NotFound, Unavailable, VersionNotFound
from rote.questions import LANGUAGES
from rote.records.memory import Memory
from rote.retrieval import retrieve
from rote.space import Space, Store
from rote.testing.intercepting import intercept
from rote.testing.naive_excerpts import naive_highlights
from rote.testing.naive_retrieval import naive_read
from rote.testing.naive_words import naive_analyse, naive_memory_terms
from rote.testing.ranking_draws import RankedMemories
from rote.testing.ranking_questions import plain_memories
from rote.testing.space_suite.ground import port_of
from rote.testing.space_suite.records import AT, RecordGround
from rote.values import canonical
from rote.values.limits import SEARCH_LIMIT_MAX

KEYS = ("long_term", "fact", "a/b#1%")
CHAT = ("session", "chat", "one")
NORMAL_AT = AT.replace(".000000Z", "Z")

# What is asked, what else is said, and the code of the refusal.
NONSENSE: list[tuple[Any, dict[str, Any], str]] = [
    ("", {}, "invalid_query"),
    (" \n", {}, "invalid_query"),
    (5, {}, "invalid_query"),
    (None, {}, "invalid_query"),
    ("\ud800", {}, "invalid_query"),
    ("x" * 70_000, {}, "invalid_query"),
    ("x", {"limit": 0}, "invalid_input"),
    ("x", {"limit": SEARCH_LIMIT_MAX + 1}, "invalid_input"),
    ("x", {"limit": True}, "invalid_input"),
    ("x", {"limit": "3"}, "invalid_input"),
    ("x", {"limit": None}, "invalid_input"),
    ("x", {"filters": []}, "invalid_filters"),
    ("x", {"filters": {"namespaces": "ops"}}, "invalid_filters"),
    ("x", {"filters": {"namespaces": [5]}}, "invalid_filters"),
    ("x", {"filters": {"after": "soon"}}, "invalid_filters"),
    ("x", {"filters": {"where": {"a": []}}}, "invalid_filters"),
    ("x", {"filters": {"limit": 3}}, "invalid_input"),
    ("x", {"include": "payload"}, "invalid_input"),
    ("x", {"include": ("nothing",)}, "invalid_input"),
    ("x", {"language": "latin"}, "invalid_scoring"),
    ("x", {"min_score": -1}, "invalid_scoring"),
    ("x", {"context": 1}, "invalid_scoring"),
    ("x", {"enable_recency_weight": "yes"}, "invalid_scoring"),
    ("x", {"enable_tag_overlap": True}, "invalid_input"),
    ("x", {"kind": "fact"}, "invalid_input"),
    ("x", {"at": 1.5}, "invalid_input"),
    ("x", {"at": "soon"}, "invalid_input"),
]


class SearchTests(RecordGround):
    def put_searched(self) -> None:
        metadata = {"tags": ["Vault", "ops"], "source": "mail"}
        self.memory.put(*KEYS, {"text": "The deploy keys\nlive in the vault."}, None, metadata)
        for who, text in (("Ada", "Who deploys on Friday?"), ("Bob", "Nobody.")):
            self.memory.append(*CHAT, {"speaker": who, "text": text, "ts_utc": "2026-02-01"})

    def search_ids(self, text: str, memory: Memory | None = None, **more: Any) -> list[Any]:
        """Return the id and entry of each item."""
        items = (memory or self.memory).search(text, **more)["items"]
        return [(item["record_id"], item["entry"]) for item in items]

    def test_an_item_says_where_it_is_and_what_matched(self) -> None:
        self.put_searched()
        first, second, third = self.memory.search("deploying key?")["items"]
        assert first.pop("score") > second.pop("score") > third.pop("score") > 0
        assert first == {
            "namespace": "long_term",
            "record_kind": "fact",
            "record_id": "a/b#1%",
            "entry": None,
            "excerpt": "The deploy keys\nlive in the vault.",
            "highlights": [[4, 10], [11, 15]],
            "ts_utc": NORMAL_AT,
            "tags": ["ops", "vault"],
        }
        turn: dict[str, Any] = dict(
            zip(("namespace", "record_kind", "record_id"), CHAT, strict=True)
        )
        turn |= {"ts_utc": "2026-02-01T00:00:00Z", "tags": []}
        assert second == {
            **turn, "entry": 1, "excerpt": "Ada: Who deploys on Friday?", "highlights": [[9, 16]]
        }  # fmt: skip
        # Its neighbour has lent it the word.
        assert third == {**turn, "entry": 2, "excerpt": "Bob: Nobody.", "highlights": []}

    def test_a_term_that_no_memory_has_is_not_highlighted(self) -> None:
        """Pieces of a long word are analysed by themselves, and one of them may be such a term."""
        long = "a" * 32 + "key"
        self.memory.put("ops", "k", "long", {"text": f"vault {long}"})
        [item] = self.memory.search("vault key")["items"]
        assert item["highlights"] == [[0, 5]]
        self.memory.put("ops", "k", "short", {"text": "a key"})
        items = self.memory.search("vault key", context=False)["items"]
        assert {item["record_id"]: item["highlights"] for item in items} == {
            "long": [[0, 5], [38, 41]],
            "short": [[2, 5]],
        }

    def test_included_members_are_those_of_the_record(self) -> None:
        self.put_searched()
        include = ("payload", "metadata", "version", "flags")
        items = self.memory.search("deploy", include=include)["items"]
        for item in items:
            key = [item[name] for name in ("namespace", "record_kind", "record_id")]
            found = self.memory.get(*key, include=("version",))
            record = {**found["record"], "version": found["version"]}
            assert {name: item[name] for name in include} == {
                name: record.get(name) for name in include
            }
        assert {item["version"] for item in items} == {1, 3}

    def test_a_search_is_a_retrieval_by_lexical_1_of_the_same_state(self) -> None:
        draws = RankedMemories(5)
        for number in range(30):
            drawn = draws.record()
            metadata = drawn.get("metadata")
            metadata = dict(metadata) if isinstance(metadata, dict) else {}
            metadata["tags"] = [tag for tag in drawn.get("tags", ()) if tag]
            if metadata.get("source") in ("", 5):
                del metadata["source"]
            if draws.chance(0.3):
                self.memory.append("session", "turn", str(number % 3), {"text": drawn["text"]})
            else:
                kind = draws.random.choice(("turn", "note"))
                id = drawn["memory_id"]
                self.memory.put("ops", kind, id, {"text": drawn["text"]}, 60, metadata)
            self.clock.move(seconds=3)
        branch = self.space.create_branch("side")
        Memory(branch).put("ops", "note", "side", {"text": draws.text()})
        version = self.space.version - 9
        states = ((self.space, "rote:notes"), (branch, "rote:notes@side"))
        views = [*states, (self.space.at(version), f"rote:notes:{version}")]
        highlighted = 0
        for view, path in views:
            memories, _ = naive_read(b"\n".join(map(canonical, plain_memories(view))), path)
            known = {
                language: {term for each in memories for term in naive_memory_terms(each, language)}
                for language in LANGUAGES
            }
            for seed in range(12):
                highlighted += self.check_search(RankedMemories(seed), view, path, known)
        assert highlighted > 50

    def check_search(
        self, draws: RankedMemories, view: Space, path: str, known: dict[str, set[str]]
    ) -> int:
        """Compare a search with the retrieval that it is; return the number of highlights.

        `known` are the terms of all memories by language.
        """
        request, limit = draws.request([path]), draws.random.choice((1, 3, 10))
        request["budget"] = {"max_excerpt_tokens": 256 * limit, "max_items": limit}
        request["now_utc"] = view.now
        package = retrieve(request, store=self.store)
        result = Memory(view).search(
            request["query"],
            limit=limit,
            filters=request.get("filters"),
            **request.get("scoring", {}),
        )
        assert [(item["score"], item["excerpt"], item["ts_utc"]) for item in result["items"]] == [
            (item["score"], item["excerpt"], item["ts_utc"])
            for item in package["selection"]["selected"]
        ]
        assert [
            "/".join(item[name] for name in ("namespace", "record_kind", "record_id"))
            + ("" if item["entry"] is None else f"#{item['entry']}")
            for item in result["items"]
        ] == [item["memory_id"] for item in package["selection"]["selected"]]
        assert result["version"] == view.version
        language = package["policy"]["language"]
        terms, analyse = {*package["query"]["terms"]}, partial(naive_analyse, language=language)
        marks = [item["highlights"] for item in result["items"]]
        assert marks == [
            naive_highlights(item["excerpt"], terms & known[language], analyse)
            for item in result["items"]
        ]
        return sum(map(len, marks))

    def test_an_answer_has_ten_items_of_256_tokens_unless_one_says_otherwise(self) -> None:
        text = f"{'first ' * 200} vault {'last ' * 200}"
        for number in range(12):
            self.memory.put("ops", "k", str(number), {"text": f"{text}{number}"})
        items = self.memory.search("vault")["items"]
        assert len(items) == 10
        for item in items:
            assert 1_000 < len(item["excerpt"]) <= 1_024
            [[start, end]] = item["highlights"]
            assert item["excerpt"][start:end] == "vault"
        assert len(self.memory.search("vault", limit=SEARCH_LIMIT_MAX)["items"]) == 12
        assert self.memory.search("vault", limit=1)["items"] == items[:1]
        assert self.memory.search("nothing") == {"items": [], "version": 12}

    def test_a_search_writes_nothing_and_leaves_no_receipt(self) -> None:
        self.put_searched()
        before = (self.space.version, self.space.head)
        assert self.memory.search("deploy")["version"] == before[0]
        assert (self.space.version, self.space.head) == before
        assert self.store.receipts() == []

    def test_a_search_is_of_a_branch_a_version_or_a_time(self) -> None:
        self.memory.put("ops", "k", "1", {"text": "the vault"})
        self.clock.move(seconds=60)
        self.memory.put("ops", "k", "2", {"text": "the vault"}, 10)
        side = self.space.create_branch("side")
        Memory(side).put("ops", "k", "3", {"text": "the vaults of others"})
        assert self.search_ids("vault") == [("2", None)]  # the same text is found once
        both = [("2", None), ("1", None)]
        assert self.search_ids("vault", drop_duplicates=False) == both
        assert self.search_ids("vault", Memory(side), drop_duplicates=False) == [*both, ("3", None)]
        for past in (1, AT, self.clock.now() - timedelta(seconds=1)):
            assert self.memory.search("vault", at=past)["version"] == 1
            assert self.search_ids("vault", at=past) == [("1", None)]
        assert self.search_ids("vault", Memory(self.space.at(1))) == [("1", None)]
        assert self.memory.search("vault", at=0) == {"items": [], "version": 0}
        self.clock.move(seconds=11)
        assert self.search_ids("vault", drop_duplicates=False) == both[1:]  # one has expired
        assert self.search_ids("vault", at=2, drop_duplicates=False) == both
        with pytest.raises(VersionNotFound):
            self.memory.search("vault", at=9)

    def test_recency_is_measured_from_the_time_of_the_view(self) -> None:
        old = {"valid_at": "2000-01-01T00:00:00Z"}
        self.memory.put("ops", "k", "1", {"text": "the vault"}, None, old)
        self.memory.put("ops", "k", "2", {"text": "the vault of ours"})

        def scores(**more: Any) -> list[float]:
            items = self.memory.search("vault", enable_recency_weight=True, **more)["items"]
            return [item["score"] for item in items]

        plain = [item["score"] for item in self.memory.search("vault")["items"]]
        assert scores() == [round(plain[1] + 1, 6), plain[0]]
        self.clock.move(seconds=30 * 86_400)
        assert scores() == [round(plain[1] + 0.5, 6), plain[0]]
        assert scores(at=2) == [round(plain[1] + 1, 6), plain[0]]

    def test_filters_keep_out_what_they_do_not_name(self) -> None:
        self.put_searched()
        every = [("a/b#1%", None), ("one", 1), ("one", 2)]
        assert set(self.search_ids("deploy", filters={})) == {*every}
        for filters, expected in (
            ({"namespaces": ["long_term"]}, every[:1]),
            ({"kinds": ["chat"], "sources": None}, every[1:]),
            ({"sources": ["mail"]}, every[:1]),
            ({"tags_any": ["VAULT"]}, every[:1]),
            ({"tags_all": ["ops", "other"]}, []),
            ({"threads": ["session/chat/one"]}, every[1:]),
            ({"before": "2026-01-31"}, every[:1]),
            ({"after": datetime(2026, 2, 1, tzinfo=UTC)}, every[1:]),
            ({"where": {"source": "mail"}}, every[:1]),
        ):
            assert set(self.search_ids("deploy", filters=filters)) == {*expected}, filters

    def test_a_memory_with_namespaces_of_its_own_shows_nothing_of_others(self) -> None:
        self.put_searched()
        own = Memory(self.space, namespaces=["mine", "session"])
        own.put("mine", "k", "1", {"text": "my own deploy"})
        assert ("a/b#1%", None) in self.search_ids("deploy")
        assert {id for id, _ in self.search_ids("deploy", own)} == {"1", "one"}
        assert self.search_ids("deploy", own, filters={"kinds": ["k"]}) == [("1", None)]
        assert self.search_ids("deploy", own, filters={"namespaces": ["mine"]}) == [("1", None)]
        for memory, name in ((own, "long_term"), (self.memory, "mine")):
            with pytest.raises(InvalidInput, match="there is no namespace"):
                memory.search("deploy", filters={"namespaces": [name]})

    def test_a_transaction_finds_its_own_writes_and_relies_on_what_it_found(self) -> None:
        self.put_searched()
        with self.space.transaction() as tx:
            memory = Memory(tx)
            memory.delete(*KEYS)
            memory.put("ops", "k", "own", {"text": "deploy by hand"})
            result = memory.search("deploy", include=("payload", "version"))
            assert [item["record_id"] for item in result["items"]] == ["own", "one", "one"]
            own = result["items"][0]
            assert (own["payload"], own["version"]) == ({"text": "deploy by hand"}, None)
            assert result["version"] == 3
            assert self.search_ids("deploy", memory, at=1) == [("a/b#1%", None)]
            # Its own writes are in no commit yet.
            assert (tx.space.last_change, tx.space.at(1).last_change) == (3, 1)
        with pytest.raises(Conflict), self.space.transaction() as tx:
            Memory(tx).search("deploy")
            tx.set("urn:result", 1)
            self.memory.put("ops", "k", "other", {"text": "deploy"})
        assert self.space.get("urn:result") is None

    @pytest.mark.parametrize("kind", [Postings, Read])
    def test_a_state_that_is_compacted_away_meanwhile_is_left_for_the_next(
        self, monkeypatch: pytest.MonkeyPatch, kind: type[Command[Any]]
    ) -> None:
        self.put_searched()
        versions: list[int] = []

        def late(space: str, command: Any, answer: Any) -> Any:
            if not versions:
                versions.append(self.memory.put("ops", "k", "1", {"text": "deploy"})["version"])
                self.space.compact(before=versions[0])
            return answer(command)

        with monkeypatch.context() as patch:
            intercept(patch, self.port, kind, late)
            result = self.memory.search("deploy", include=("payload",))
        assert result["version"] > versions[0]
        assert len(result["items"]) == 4
        assert all(item["payload"] for item in result["items"])

    def test_a_search_that_makes_no_sense_is_refused(self) -> None:
        for text, more, code in NONSENSE:
            with pytest.raises(InvalidInput) as caught:
                self.memory.search(text, **more)
            assert caught.value.code == code, (text, more)

    def test_hosts_of_v1_and_stores_without_it_offer_no_search(self) -> None:
        with pytest.raises(InvalidInput, match="knows no search"):
            Memory(self.space, profile="v1").search("x")
        bare = Store(port_of(self.store), url="bare", local=self.store._local)
        with pytest.raises(Unavailable, match="without searches"):
            Memory(bare.space("notes")).search("x")
        with pytest.raises(NotFound):
            self.space.on("nothing")

    def test_exported_memories_give_the_package_of_the_space(self) -> None:
        self.put_searched()
        self.memory.put("ops", "k", "odd", {"entries": [], "text": "deploy"})
        self.memory.put("ops", "k", "one", {"entries": [5, {"content": "deploy it"}, {"n": 1}]})
        self.memory.put("ops", "k", "gone", {"text": "deploy"}, 1)
        self.clock.move(seconds=5)
        stream = BytesIO()
        assert write_export(self.memory, stream, format="memories") == 4
        lines = stream.getvalue()
        assert [line.split(b'"memory_id":"')[1].split(b'"')[0] for line in lines.splitlines()] == [
            b"long_term/fact/a%2Fb%231%25", b"ops/k/one#2", b"ops/k/one#3",
            b"session/chat/one#1", b"session/chat/one#2",
        ]  # fmt: skip
        (self.place / "file.jsonl").write_bytes(lines)
        for query, filters in (
            ("deploy keys", {}),
            ("who deploys in February 2026?", {"kinds": ["chat", "k"]}),
            ("vault", {"tags_all": ["vault"], "where": {"source": "mail"}}),
        ):
            request = {
                "policy": "lexical-1", "query": query, "filters": filters,
                "budget": {"max_excerpt_tokens": 100},
            }  # fmt: skip
            packages = [
                retrieve({**request, "store_paths": [path]}, store=self.store, root=self.place)
                for path in ("rote:notes", "file.jsonl")
            ]
            name = packages[0]["stores"][0]["store_path"]
            assert packages[0]["selection"]["selected"]
            texts = [canonical({**package, "package_hash": ""}) for package in packages]
            assert texts[0].replace(name.encode(), b"file.jsonl") == texts[1]
        stream = BytesIO()
        empty = Memory(self.store.space("empty"))
        empty.put("ops", "k", "odd", {"entries": []})
        assert write_export(empty, stream, format="memories") == 1
        assert stream.getvalue() == b""
