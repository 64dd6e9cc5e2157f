from rote.testing import SeededIds


def test_the_same_seed_gives_the_same_bytes_draw_by_draw() -> None:
    one, two = SeededIds(7), SeededIds(7)
    assert [one.random_bytes(16), one.random_bytes(32)] == [
        two.random_bytes(16),
        two.random_bytes(32),
    ]


def test_draws_differ_from_each_other_and_between_seeds() -> None:
    ids, other = SeededIds(1), SeededIds(2)
    drawn = [ids.random_bytes(16) for _ in range(50)] + [other.random_bytes(16)]
    assert len(set(drawn)) == 51
    assert {len(salt) for salt in drawn} == {16}


def test_what_was_drawn_is_recorded_and_can_be_foretold() -> None:
    ids = SeededIds(3)
    assert ids.random_bytes(4) == ids.bytes_of(0, 4)
    assert ids.random_bytes(8) == ids.bytes_of(1, 8)
    assert ids.draws == [ids.bytes_of(0, 4), ids.bytes_of(1, 8)]
