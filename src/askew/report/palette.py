"""Colours for classes that stay apart for colour-blind readers too."""

from __future__ import annotations

# Petroff 2021, "Accessible color sequences for data visualization": ten colours.
_TEN = ("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd")
# Tol 2021, "Colour schemes", discrete rainbow with 23 colours.
_TWENTY_THREE = (
    "#e8ecfb", "#d9cce3", "#caacca", "#ba8db4", "#aa6f9e", "#994f88", "#882e72", "#1965b0", "#437dbf", "#6195cf",
    "#7bafde", "#4eb265", "#90c987", "#cae0ab", "#f7f056", "#f7cb45", "#f4a736", "#ee8026", "#e65518", "#dc050c",
    "#a5170e", "#72190e", "#42150a")


def class_colours(number: int) -> list[str]:
    """`number` colours: ten that differ most; up to 23 along a rainbow of changing lightness; then shades between."""
    if number <= len(_TEN):
        return list(_TEN[:number])
    if number <= len(_TWENTY_THREE):
        return [_TWENTY_THREE[round(i * (len(_TWENTY_THREE) - 1) / (number - 1))] for i in range(number)]
    return [_between(i * (len(_TWENTY_THREE) - 1) / (number - 1)) for i in range(number)]


def _between(place: float) -> str:
    low = min(int(place), len(_TWENTY_THREE) - 2)
    part = place - low
    channels = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in _TWENTY_THREE[low : low + 2]]
    return "#" + "".join(f"{round(a + part * (b - a)):02x}" for a, b in zip(*channels, strict=True))
