"""For pieces of your own: `check_piece` puts one through what every piece of askew goes through.

    import askew
    from my_methods import my_piece

    def test_my_piece():
        askew.testing.check_piece(my_piece(0.1))

It trains a small federation of unequal clients in every form that an engine has on this machine, and compares each
client's message and memory, and the server's models, with those of one client after the other.
"""

from askew.testing.check import SMALL, check_piece
from askew.testing.forms import can_compile, forms

__all__ = ["SMALL", "can_compile", "check_piece", "forms"]
