"""What to cite: BibTeX of the papers, and which of them each method comes from.

The five papers' entries are in `askew/papers/PAPER/citation.bib`, those of other works in `other_works.bib`.
Titles, authors, years and places follow the papers' own title pages and reference lists. arXiv numbers that these do
not print were looked up; an entry without one has none that could be confirmed.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from askew.core.errors import AskewError, suggest

FOLDER = Path(__file__).parent

# method -> where it comes from, the paper that proposes it first. All but training in one place build on FedAvg.
METHOD_SOURCES: dict[str, tuple[str, ...]] = {
    "fedavg": ("mcmahan2017",),
    "fedavgm": ("hsu2019", "mcmahan2017"),
    "fedprox": ("fedprox2018", "mcmahan2017"),
    "norm_norm": ("fednnnn2020", "mcmahan2017"),
    "server_momentum": ("ozdayi2020", "fednnnn2020", "hsu2019", "mcmahan2017"),
    "fednnnn": ("fednnnn2020", "mcmahan2017"),
    "server_training": ("ozdayi2020", "mcmahan2017"),
    "projected": ("ozdayi2020", "mcmahan2017"),
    # ozdayi2020, section 3.4, names the earlier paper that uses the same rule against backdoors.
    "sign_agreement": ("ozdayi2020", "ozdayi2020defending", "mcmahan2017"),
    "ozdayi_combination": ("ozdayi2020", "ozdayi2020defending", "mcmahan2017"),
    "data_sharing": ("zhao2018", "mcmahan2017"),
    "fedcd": ("fedcd2020", "mcmahan2017"),
    "centralised": (),
    "scaffold": ("scaffold2020", "mcmahan2017"),
    "fednova": ("fednova2020", "mcmahan2017"),
    "feddyn": ("feddyn2021", "mcmahan2017"),
    "fedadam": ("reddi2021", "kingma2015", "mcmahan2017"),
    "fedyogi": ("reddi2021", "mcmahan2017"),
    "fedadagrad": ("reddi2021", "mcmahan2017"),
    "fedexp": ("fedexp2023", "mcmahan2017"),
    "median": ("yin2018", "mcmahan2017"),
    "trimmed_mean": ("yin2018", "mcmahan2017"),
    "kept_momentum": ("zhao2018", "fedcd2020", "mcmahan2017"),
    "dp_fedavg": ("mcmahan2018", "wang2019", "mcmahan2017"),  # wang2019: the bound behind askew.privacy
    "fedper": ("fedper2019", "mcmahan2017"),
    "fedbn": ("fedbn2021", "mcmahan2017"),
}


@functools.cache
def entries() -> dict[str, str]:
    """Key -> BibTeX entry: the five papers', then those of other works.

    Example:
        >>> entries()["hsu2019"].splitlines()[0]
        '@misc{hsu2019,'
    """
    files = [*sorted(FOLDER.glob("*/citation.bib")), FOLDER / "other_works.bib"]
    texts = [entry.strip() for path in files
             for entry in re.split(r"^(?=@)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)]
    return {entry[entry.index("{") + 1:entry.index(",")]: entry for entry in texts if entry}


def sources(name: str) -> tuple[str, ...]:
    """The keys of the papers behind a method; a key stands for itself.

    Args:
        name: a method of `METHOD_SOURCES` or a key of `entries`.

    Returns:
        Keys of `entries`, the proposing paper first; none for training in one place.

    Example:
        >>> sources("fedavgm")
        ('hsu2019', 'mcmahan2017')
    """
    if name in METHOD_SOURCES:
        return METHOD_SOURCES[name]
    if name in entries():
        return (name,)
    raise AskewError(f"unknown method {name!r}; {suggest(name, [*METHOD_SOURCES, *entries()])}")


def cite(method: str) -> str:
    """BibTeX of what a method comes from, ready to paste into a .bib file.

    Args:
        method: a method of `METHOD_SOURCES` or a key of `entries`.

    Returns:
        The entries, a blank line between them; a BibTeX comment where there is nothing to cite.

    Example:
        >>> cite("fedavgm").splitlines()[0]
        '@misc{hsu2019,'
    """
    cited = "\n\n".join(entries()[key] for key in sources(method))
    return cited or f"% {method}: training on all data in one place, nothing to cite"
