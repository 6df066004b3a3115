"""Citations: entries that BibTeX can read, and every method with its sources."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from askew.cli.cite import app
from askew.core import registry
from askew.core.errors import AskewError
from askew.papers.citations import METHOD_SOURCES, cite, entries, sources
from askew.pieces import methods


def fields(entry: str) -> dict[str, str]:
    """The fields of one entry, by a reader of balanced braces."""
    head = re.match(r"@(misc|inproceedings)\{(\w+),\n", entry)
    assert head, entry
    found, position = {"ENTRYTYPE": head[1], "ID": head[2]}, head.end()
    while (match := re.compile(r"\s*(\w+)\s*=\s*\{").match(entry, position)) is not None:
        depth, position, start = 1, match.end(), match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(entry[position], 0)
            position += 1
        found[match[1]] = " ".join(entry[start:position - 1].split())
        assert entry[position] == ",", entry[start:position + 1]
        position += 1
    assert entry[position:].strip() == "}", entry[position:]
    return found


@pytest.mark.parametrize("key", entries())
def test_every_entry_reads_as_bibtex(key: str) -> None:
    read = fields(entries()[key])
    assert read["ID"] == key
    assert read["title"]
    assert read["year"] == re.sub(r"\D", "", key)
    assert all("," in author for author in read["author"].split(" and "))  # "Family, Given" is unambiguous
    assert read["ENTRYTYPE"] == "misc" or read["booktitle"]
    if "eprint" in read:
        assert re.fullmatch(r"\d{4}\.\d{4,5}", read["eprint"])  # four digits before 2015
        assert read["archivePrefix"] == "arXiv"
        assert int(read["eprint"][:2]) + 2000 <= int(read["year"])  # first posted no later than it appeared
    assert entries()[key].isascii()


def test_first_authors() -> None:
    first = {key: fields(entry)["author"].split(",")[0] for key, entry in entries().items()}
    assert first == {
        "mcmahan2017": "McMahan", "hsu2019": "Hsu", "fedprox2018": "Sahu", "zhao2018": "Zhao", "fednnnn2020": "Nagura",
        "fedcd2020": "Kopparapu", "ozdayi2020": "Ozdayi", "ozdayi2020defending": "Ozdayi", "fixup2019": "Zhang",
        "helloedge2017": "Zhang", "scaffold2020": "Karimireddy", "fednova2020": "Wang", "feddyn2021": "Acar",
        "reddi2021": "Reddi", "fedexp2023": "Jhunjhunwala", "yin2018": "Yin", "mcmahan2018": "McMahan",
        "wang2019": "Wang", "fedper2019": "Arivazhagan", "fedbn2021": "Li", "kingma2015": "Kingma",
    }


def test_every_method_has_sources_that_exist() -> None:
    ours = {name for name in registry.names("method") if registry.find("method", name).__module__ == methods.__name__}
    assert set(METHOD_SOURCES) == ours
    assert all(set(keys) <= set(entries()) and len(set(keys)) == len(keys) for keys in METHOD_SOURCES.values())
    assert [name for name, keys in METHOD_SOURCES.items() if not keys] == ["centralised"]


def test_cite_prints_each_source_once_and_the_proposer_first() -> None:
    text = cite("sign_agreement")
    assert re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE) == ["ozdayi2020", "ozdayi2020defending", "mcmahan2017"]
    assert [fields(entry)["ID"] for entry in text.split("\n\n")] == list(sources("sign_agreement"))


def test_a_paper_can_be_named_by_its_key() -> None:
    assert fields(cite("fixup2019"))["title"].startswith("Fixup")


def test_nothing_to_cite_is_a_bibtex_comment() -> None:
    assert cite("centralised").startswith("% centralised: ")


def test_unknown_method_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(AskewError, match=r"^unknown method 'fedavgn'; did you mean 'fedavg"):
        cite("fedavgn")


def test_command_prints_bibtex_only() -> None:
    result = CliRunner().invoke(app, ["fednnnn"])
    assert result.exit_code == 0
    assert result.stdout == cite("fednnnn") + "\n"


def test_command_prints_json() -> None:
    result = CliRunner().invoke(app, ["data_sharing", "--json"])
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert printed["method"] == "data_sharing"
    assert printed["sources"] == ["zhao2018", "mcmahan2017"]
    assert [fields(entry)["ID"] for entry in printed["bibtex"].values()] == printed["sources"]


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_command_with_an_unknown_method_prints_nothing(extra: list[str]) -> None:
    result = CliRunner().invoke(app, ["fedcdd", *extra])
    assert isinstance(result.exception, AskewError)  # the entry point turns it into one line and exit code 2
    assert "did you mean 'fedcd'?" in str(result.exception)
    assert result.stdout == ""


def test_the_command_takes_calls_and_combinations() -> None:
    def said(*args: str) -> str:
        result = CliRunner().invoke(app, list(args))
        assert result.exit_code == 0, result.exception
        return result.stdout

    assert said("scaffold(lr=1)") == cite("scaffold") + "\n"
    assert json.loads(said("fedprox(mu=0.1)+fedavgm", "--json"))["sources"] == ["fedprox2018", "mcmahan2017", "hsu2019"]
    assert said("centralised") == cite("centralised") + "\n"
    wrong = CliRunner().invoke(app, ["scaffold(rate=1)"])
    assert isinstance(wrong.exception, AskewError)
    assert "method 'scaffold' has no argument 'rate'" in str(wrong.exception)
