"""What to cite: BibTeX of the papers, and which of them each method comes from.

Titles, authors, years and places follow the papers' own title pages and reference lists. arXiv numbers that these do
not print were looked up; an entry without one has none that could be confirmed.
"""

from __future__ import annotations

from askew.core.errors import AskewError
from askew.core.registry import suggest

BIBTEX = {
    "mcmahan2017": r"""
@inproceedings{mcmahan2017,
  title     = {Communication-Efficient Learning of Deep Networks from Decentralized Data},
  author    = {McMahan, H. Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth
               and Ag{\"u}era y Arcas, Blaise},
  booktitle = {Artificial Intelligence and Statistics (AISTATS)},
  pages     = {1273--1282},
  year      = {2017},
  eprint    = {1602.05629},
  archivePrefix = {arXiv},
}
""",
    "hsu2019": r"""
@misc{hsu2019,
  title  = {Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification},
  author = {Hsu, Tzu-Ming Harry and Qi, Hang and Brown, Matthew},
  year   = {2019},
  eprint = {1909.06335},
  archivePrefix = {arXiv},
}
""",
    "fedprox2018": r"""
@misc{fedprox2018,
  title  = {On the Convergence of Federated Optimization in Heterogeneous Networks},
  author = {Sahu, Anit Kumar and Li, Tian and Sanjabi, Maziar and Zaheer, Manzil and Talwalkar, Ameet
            and Smith, Virginia},
  year   = {2018},
  eprint = {1812.06127},
  archivePrefix = {arXiv},
  note   = {Later versions are named Federated Optimization in Heterogeneous Networks},
}
""",
    "zhao2018": r"""
@misc{zhao2018,
  title  = {Federated Learning with Non-{IID} Data},
  author = {Zhao, Yue and Li, Meng and Lai, Liangzhen and Suda, Naveen and Civin, Damon and Chandra, Vikas},
  year   = {2018},
  eprint = {1806.00582},
  archivePrefix = {arXiv},
}
""",
    "fednnnn2020": r"""
@misc{fednnnn2020,
  title  = {{FedNNNN}: Norm-Normalized Neural Network Aggregation for Fast and Accurate Federated Learning},
  author = {Nagura, Kenta and Bian, Song and Sato, Takashi},
  year   = {2020},
  eprint = {2008.04538},
  archivePrefix = {arXiv},
}
""",
    "fedcd2020": r"""
@inproceedings{fedcd2020,
  title     = {{FedCD}: Improving Performance in non-{IID} Federated Learning},
  author    = {Kopparapu, Kavya and Lin, Eric and Zhao, Jessica},
  booktitle = {Proceedings of SIGKDD '20: ACM Conference on Knowledge Discovery and Data Mining},
  year      = {2020},
  eprint    = {2006.09637},
  archivePrefix = {arXiv},
  note      = {Workshop on Artificial Intelligence of Things},
}
""",
    "ozdayi2020": r"""
@misc{ozdayi2020,
  title  = {Improving Accuracy of Federated Learning in Non-{IID} Settings},
  author = {Ozdayi, Mustafa Safa and Kantarcioglu, Murat and Iyer, Rishabh},
  year   = {2020},
}
""",
    "ozdayi2020defending": r"""
@misc{ozdayi2020defending,
  title  = {Defending against Backdoors in Federated Learning with Robust Learning Rate},
  author = {Ozdayi, Mustafa Safa and Kantarcioglu, Murat and Gel, Yulia R.},
  year   = {2020},
}
""",
    "fixup2019": r"""
@inproceedings{fixup2019,
  title     = {Fixup Initialization: Residual Learning Without Normalization},
  author    = {Zhang, Hongyi and Dauphin, Yann N. and Ma, Tengyu},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year      = {2019},
  eprint    = {1901.09321},
  archivePrefix = {arXiv},
}
""",
    "helloedge2017": r"""
@misc{helloedge2017,
  title  = {Hello Edge: Keyword Spotting on Microcontrollers},
  author = {Zhang, Yundong and Suda, Naveen and Lai, Liangzhen and Chandra, Vikas},
  year   = {2017},
  eprint = {1711.07128},
  archivePrefix = {arXiv},
}
""",
}

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
}


def sources(name: str) -> tuple[str, ...]:
    """The keys of the papers behind a method; a key stands for itself.

    Args:
        name: a method of `METHOD_SOURCES` or a key of `BIBTEX`.

    Returns:
        Keys of `BIBTEX`, the proposing paper first; none for training in one place.

    Example:
        >>> sources("fedavgm")
        ('hsu2019', 'mcmahan2017')
    """
    if name in METHOD_SOURCES:
        return METHOD_SOURCES[name]
    if name in BIBTEX:
        return (name,)
    raise AskewError(f"unknown method {name!r}; {suggest(name, [*METHOD_SOURCES, *BIBTEX])}")


def cite(method: str) -> str:
    """BibTeX of what a method comes from, ready to paste into a .bib file.

    Args:
        method: a method of `METHOD_SOURCES` or a key of `BIBTEX`.

    Returns:
        The entries, a blank line between them; a BibTeX comment where there is nothing to cite.

    Example:
        >>> cite("fedavgm").splitlines()[0]
        '@misc{hsu2019,'
    """
    entries = [BIBTEX[key].strip() for key in sources(method)]
    return "\n\n".join(entries) or f"% {method}: training on all data in one place, nothing to cite"
