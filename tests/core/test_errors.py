"""Messages about bad input."""

from askew.core.errors import suggest


def test_known_names_of_a_file_may_be_many_and_long():
    many = suggest("site", [f"column {n}" for n in range(10_000)])
    assert len(many) < 1100
    assert len(suggest("q", ["x" * 100_000, "y"])) < 200
    assert len(suggest("x" * 70, ["x" * 100_000])) < 200
