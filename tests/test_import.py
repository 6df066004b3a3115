"""`import askew` is light: no plotting, command-line or download library, and no work."""

import json
import subprocess
import sys

HEAVY = ("matplotlib", "typer", "rich", "pooch", "PIL", "pyarrow", "pandas", "sklearn", "scipy", "triton", "flwr", "datasets")


def test_import_pulls_in_nothing_heavy():
    code = f"import sys, json, askew; print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    torch_alone = subprocess.run([sys.executable, "-c", code.replace(", askew", ", torch")], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) <= set(json.loads(torch_alone.stdout))


def test_the_public_names_exist():
    import askew

    assert all(hasattr(askew, name) for name in askew.__all__)
    assert all((getattr(askew, name).__doc__ or "").strip() for name in askew.__all__)
