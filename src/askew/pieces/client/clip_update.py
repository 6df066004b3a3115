"""Updates of bounded length: one client's data can move the model only so far.

References:
    McMahan et al. 2018, "Learning Differentially Private Recurrent Language Models", algorithm 1 (FlatClip).
"""

from __future__ import annotations

from askew.core.bounds import Positive
from askew.core.client_piece import ClientContext, ClientPiece, Message
from askew.core.registry import piece
from askew.core.tensors import Tree, norm


@piece("client")
def clip_update(length: Positive) -> ClientPiece:
    """u <- u min(1, length / ||u||), the norm over all weights together; once per round, on what the client sends.

    The paper's algorithm clips after each local step as well (`project_to_ball(length, "start")` does); what is sent is
    as short either way. Pieces behind this one must not make the update longer. Buffers (BatchNorm statistics) are not
    clipped: with them nothing is private.

    Args:
        length: S of the paper.

    Example:
        length 5, update (6, 8) with norm 10: the client sends (3, 4).

        >>> client_message(clip_update(5.0), [6.0, 8.0])["update"]["w"]
        tensor([3., 4.])
    """

    def end(message: Message, state: Tree, kept: Tree, ctx: ClientContext) -> tuple[Message, Tree]:
        u = message["update"]
        shrink = (length / norm(u).clamp_min(1e-38)).clamp(max=1.0)
        return {**message, "update": {name: shrink * v for name, v in u.items()}}, kept

    return ClientPiece(end=end, bound=length)
