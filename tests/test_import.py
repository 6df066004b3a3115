"""Nothing is loaded before it is needed: `import askew` and `askew --help` are light."""

import json
import subprocess
import sys

import pytest

# Libraries that only some commands need, and the parts of askew that import them.
HEAVY = ("torch", "numpy", "safetensors", "matplotlib", "pooch", "PIL", "pyarrow", "pandas", "sklearn", "scipy",
         "triton", "plotly", "jinja2", "tensorboard", "mlflow", "wandb",
         "flwr", "datasets", "askew.core.registry", "askew.pieces", "askew.data", "askew.models", "askew.partition",
         "askew.engine", "askew.rounds", "askew.runs")
COMMAND = "import sys; sys.argv = ['askew', {}]; import askew.cli.app; askew.cli.app.main()"


def loaded_by(code: str) -> set[str]:
    """Modules that a fresh interpreter has loaded when `code` has run, or has ended it."""
    told = f"import atexit, sys, json; atexit.register(lambda: sys.stderr.write(json.dumps(list(sys.modules)))); {code}"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr))


@pytest.mark.parametrize("code", [
    "import askew", "import askew.core.errors", "import askew.cli.app", "import askew.papers.citations",
    COMMAND.format("'--help'"), COMMAND.format("'cite', 'fedavgm'"),
])
def test_nothing_heavy_is_loaded(code: str) -> None:
    assert loaded_by(code) & set(HEAVY) == set()


def test_import_askew_loads_neither_command_line_nor_tables() -> None:
    assert loaded_by("import askew") & {"typer", "rich", "askew.cli", "askew.report", "askew.papers"} == set()


def test_what_is_asked_for_is_loaded_at_once() -> None:
    """One after the other: no part that the package names may have loaded the next one, else nothing is shown."""
    loaded = loaded_by("import sys, askew\n"
                       "for name in ('pieces', 'partition', 'models', 'data'):\n"
                       "    assert 'askew.' + name not in sys.modules, name\n"
                       "    assert getattr(askew, name).__doc__\n"
                       "    assert 'askew.' + name in sys.modules, name\n"
                       "askew.Recipe")
    assert {"torch", "askew.core.recipe"} <= loaded


def test_the_public_names_exist() -> None:
    import askew

    assert all(hasattr(askew, name) for name in askew.__all__)
    assert all((getattr(askew, name).__doc__ or "").strip() for name in askew.__all__)
