"""What every text file of the repository must be: `python .ci/check_files.py FILE...`, or all files that git knows.

No spaces at the ends of lines, one newline at the end of a file, no tabs in Python, no marks of an unfinished merge, no
more than 1 MB, and TOML, JSON and CFF files that can be read.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".json", ".bib", ".cff", ".txt"}
MOST_BYTES = 1_000_000  # of one file; the largest results file has 0.4 MB
MERGE_MARKS = ("<" * 7 + " ", ">" * 7 + " ")


def problems(path: Path) -> list[str]:
    """One line per thing that is wrong with a file."""
    found = [f"{path}: larger than {MOST_BYTES:,} bytes"] if path.stat().st_size > MOST_BYTES else []
    if path.suffix not in TEXT:
        return found
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            found.append(f"{path}:{number}: spaces at the end of the line")
        if path.suffix == ".py" and "\t" in line:
            found.append(f"{path}:{number}: a tab")
        if line.startswith(MERGE_MARKS):
            found.append(f"{path}:{number}: a mark of an unfinished merge")
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        found.append(f"{path}: must end with one newline")
    try:
        {".toml": tomllib.loads, ".json": json.loads}.get(path.suffix, str)(text)
    except ValueError as error:
        found.append(f"{path}: cannot be read: {error}")
    return found


def main() -> None:
    listed = sys.argv[1:] or subprocess.run(["git", "ls-files"], capture_output=True, text=True,
                                            check=True).stdout.splitlines()
    found = [line for name in listed if Path(name).is_file() for line in problems(Path(name))]
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
