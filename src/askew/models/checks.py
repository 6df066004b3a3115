"""The checks that networks share: what is given must fit what the layers can take, said in one line."""

from __future__ import annotations

from askew.core.errors import AskewError


def require_classes(network: str, num_classes: int) -> None:
    """Refuse fewer than one class."""
    if num_classes < 1:
        raise AskewError(f"{network}: num_classes must be at least 1, not {num_classes}; give data with labels")


def require_image(network: str, input_shape: tuple[int, ...], num_classes: int, *, min_size: tuple[int, int],
                  multiple_of: int = 1) -> tuple[int, int, int]:
    """The input shape as (channels, height, width), if it is an image of a size that the network can take; refuses
    fewer than one class, too.

    Args:
        network: name for the message.
        input_shape: shape of one example, after preprocessing.
        min_size: least height and width, in pixels, that leave one pixel after the network's strides and pools.
        multiple_of: height and width must be multiples of it.

    Returns:
        (channels, height, width).

    Example:
        >>> require_image("small_cnn", (1, 8, 8), 10, min_size=(4, 4))
        (1, 8, 8)
    """
    require_classes(network, num_classes)
    shown = list(input_shape)
    if len(input_shape) != 3 or min(input_shape) < 1:
        raise AskewError(f"{network} needs inputs [channels, height, width], not {shown}; use mlp for other shapes")
    channels, height, width = input_shape
    if height < min_size[0] or width < min_size[1]:
        least = f"[channels, {min_size[0]}, {min_size[1]}]"
        raise AskewError(f"{network} needs inputs of at least {least}, not {shown}; use mlp for smaller ones")
    if height % multiple_of or width % multiple_of:
        raise AskewError(f"{network} needs height and width in multiples of {multiple_of}, not {shown}; crop or pad")
    return channels, height, width
