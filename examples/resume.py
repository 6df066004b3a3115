"""Interrupt a run and go on: the result is the one it would have had without the break.

    python examples/resume.py
"""

import tempfile
from pathlib import Path
from typing import Any

import askew


def stop_after_four(record: dict[str, Any], recipe: askew.Recipe) -> None:
    """What Ctrl-C does, in the middle of a run."""
    if record["round"] == 4:
        raise KeyboardInterrupt


def main() -> None:
    recipe = askew.Recipe(population="shards(clients=10, shards_per_client=1)", rounds=10)
    with tempfile.TemporaryDirectory() as folder:
        broken = askew.run(recipe, out=Path(folder) / "run", on_round=stop_after_four)
        print(f"stopped after {len(broken.records)} rounds, in the folder: "
              f"{', '.join(sorted(path.name for path in (Path(folder) / 'run').iterdir()))}")
        whole = askew.resume(Path(folder) / "run")  # on the command line: askew resume FOLDER
    print(f"went on to round {whole.records[-1]['round']}: accuracy {whole.accuracy:.3f}")
    print(f"without the break: {askew.run(recipe).accuracy:.3f}")


if __name__ == "__main__":
    main()
