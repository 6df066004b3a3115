"""How the clients' updates relate: N and E, weight divergence, signs that cancel; where the run had the probes."""

from __future__ import annotations

from typing import Any

from askew.report.page.blocks import Choice, Figure, Section, Text, axis, hover, line, points
from askew.report.page.curves import figure, has, number, over_seeds, whole_rounds
from askew.report.page.report import Report, Series

# What a probe measures -> in words; behind each name records may have the name of a part of the model.
_MEASURED = {
    "N/E": ("N/E", "length of the clients' mean update over the mean length of their updates: 1 where all pull one "
                   "way, near 0 where they cancel out", False),
    "N": ("N", "length of the clients' mean update", False),
    "E": ("E", "mean length of the clients' updates", False),
    "server_step": ("server's step", "length of the step that the server takes", False),
    "weight_divergence": ("weight divergence", "distance from a twin that is trained in one place, over the twin's "
                                               "length", False),
    "no_sign_agreement": ("no sign agreement", "share of the coordinates in which the signs of the updates do not "
                                               "agree", True),
    "signs_cancel": ("signs cancel", "share of the coordinates whose signs add up to 0", True),
    "conflicts_pair": ("conflicts", "share of held-out inputs on which two clients' models differ", True),
}


def section(report: Report) -> Section | None:
    options = []
    for key, (title, words, is_share) in _MEASURED.items():
        if has(report, key):
            blocks: list[Any] = [figure(report.series, number(key), title, is_share), Text(words.capitalize() + ".")]
            options.append((title, [*blocks, *_parts(report, key, title, is_share)]))
    if not options:
        return None
    return Section("updates", "Do the updates agree?", [Choice("probe", "Show", options)])


def _parts(report: Report, key: str, title: str, is_share: bool) -> list[Any]:
    """The same by parts of the model, one series at a time."""
    shown = [(series.label, figure) for series in report.ranked
             if (figure := _figure(series, key, title, is_share)) is not None]
    if len(shown) <= 1:
        return [figure for _, figure in shown]
    return [Choice("series", "By parts of", [(label, [figure]) for label, figure in shown])]


def _figure(series: Series, key: str, title: str, is_share: bool) -> Figure | None:
    names = dict.fromkeys(name for record in series.first.records for name in record if name.startswith(f"{key} "))
    if not names:
        return None
    looks = [line(at, name.removeprefix(f"{key} "), f"part {name}") for at, name in enumerate(names)]
    data = []
    for look, name in zip(looks, names, strict=True):
        rounds, values, _ = over_seeds(series, number(name))
        data.append(points(look, rounds, values, marker={"color": look.colour},
                           hovertemplate=hover("y", is_share) + ", round %{x}"))
    layout = {"xaxis": axis("round", **whole_rounds([series])), "hovermode": "closest",
              "yaxis": axis(title, is_share)}
    return Figure(data, layout, f"{title} by parts of the model", lines=looks)
