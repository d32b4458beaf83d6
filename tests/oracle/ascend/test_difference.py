from serq.oracle.ascend.difference import ABSENT, Difference, first_difference


def test_equal_structures_have_no_difference() -> None:
    assert first_difference({"a": [1, {"b": 2.0}]}, {"a": [1, {"b": 2}]}) is None


def test_the_first_place_is_named() -> None:
    found = first_difference({"a": [1, {"b": [2, 3]}]}, {"a": [1, {"b": [2, 4]}]})
    assert found == Difference("a[1].b[1]", 3, 4)


def test_absent_keys_and_lengths_differ() -> None:
    assert first_difference({"a": 1}, {}) == Difference("a", 1, ABSENT)
    assert first_difference({}, {"a": 1}) == Difference("a", ABSENT, 1)
    assert first_difference({"a": [1]}, {"a": [1, 2]}) == Difference("a (length)", 1, 2)


def test_true_is_not_one() -> None:
    assert first_difference([True], [1]) == Difference("[0]", True, 1)
