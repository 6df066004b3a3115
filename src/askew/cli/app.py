"""The command `askew`. One file per command; this one only gathers them and turns errors into one line."""

from __future__ import annotations

import importlib
import os
import re
import sys
import warnings
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from askew.core import interrupt
from askew.core.errors import AskewError, LostError, first_line, suggest

# name -> (module, one line of help). A module is imported only when its command is called or asked for help.
COMMANDS = {
    "compare": ("askew.cli.compare", "Methods side by side on one skewed federation."),
    "run": ("askew.cli.run", "Train one recipe and keep the result in a run folder."),
    "resume": ("askew.cli.resume", "Go on with an interrupted run."),
    "predict": ("askew.cli.predict", "What a trained model says of the rows of a file."),
    "export": ("askew.cli.export", "A trained model as a file for other programs: ONNX, PyTorch."),
    "sweep": ("askew.cli.sweep", "Train a grid of settings at once and rank them."),
    "report": ("askew.cli.report", "Runs as one page for the browser."),
    "reproduce": ("askew.cli.reproduce", "A paper's tables and figures, its numbers beside ours."),
    "bench": ("askew.cli.bench", "How fast is this machine for a recipe, engine by engine?"),
    "partition": ("askew.cli.partition", "Make a federation and see how skewed it is."),
    "diagnose": ("askew.cli.diagnose", "How skewed is my federation, and what will it cost?"),
    "advise": ("askew.cli.advise", "Which remedy should I use, what will it gain, what does it ask for?"),
    "deploy": ("askew.cli.deploy", "The same recipe on Flower: as an app, or tried on this machine."),
    "data": ("askew.cli.data", "List, download and verify data sets."),
    "track": ("askew.cli.track", "Send runs to TensorBoard, MLflow or Weights & Biases."),
    "cite": ("askew.cli.cite", "BibTeX of what a method comes from."),
}


class _Lazy(TyperGroup):
    _by_name = False  # commands are asked for their names and help only

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in COMMANDS:
            raise AskewError(f"unknown command {name!r}; {suggest(name, COMMANDS)}")
        if self._by_name:
            return TyperCommand(name, help=COMMANDS[name][1])
        with interrupt.shielded():  # half-imported modules, and torch's own start, do not bear an exception
            module = importlib.import_module(COMMANDS[name][0])
        module.app._add_completion = False  # one completion, the main command's, is enough
        command: Any = typer.main.get_command(module.app)
        command.name = name
        return command

    def invoke(self, ctx: Any) -> Any:
        """Ctrl-C where there is nothing to save; where there is, the commands see to it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            if os.environ.get("RANK", "0") == "0" or "TORCHELASTIC_RUN_ID" not in os.environ:
                sys.stderr.write("askew: interrupted\n")
            raise SystemExit(130) from None

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Names for the shell, by the list above: importing the commands would take seconds."""
        self._by_name = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._by_name = False

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of `askew --help`, which imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


_python_format = warnings.formatwarning
app = typer.Typer(cls=_Lazy, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


def version() -> str:
    """Of askew, as it was installed."""
    try:
        return metadata.version("askew")
    except metadata.PackageNotFoundError:
        return "not installed, run from its source tree"


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"askew {version()}\n")
        raise typer.Exit


@app.callback()
def _about(
    _: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True,
                                    help="Print askew's version and leave.")] = False,
) -> None:
    """Federated learning on skewed data: measure it, train under every remedy, compare."""


def main() -> None:
    """Entry point: bad input is one line on stderr and exit code 2 (3 when training diverged); so is each warning.

    What nobody foresaw is one line, too, with the traceback where ASKEW_TRACEBACK is set.
    """
    warnings.formatwarning = _one_line
    try:
        with interrupt.as_ctrl_c():
            app(prog_name="askew", standalone_mode=True)
    except Exception as error:
        if os.environ.get("ASKEW_TRACEBACK"):
            raise
        if _speaks(error):
            sys.stderr.write(f"askew: {_in_one_line(error)}\n")
        foreseen = isinstance(error, OSError) or _is_memory(error)
        sys.exit(error.exit_code if isinstance(error, AskewError) else AskewError.exit_code if foreseen else 1)


def _speaks(error: Exception) -> bool:
    """Of the processes that torchrun has started the first says what all know; any, that it has lost the others."""
    return "TORCHELASTIC_RUN_ID" not in os.environ or os.environ.get("RANK") == "0" or isinstance(error, LostError)


def _is_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or bool(re.search("out of memory|allocate memory", str(error)))


def _in_one_line(error: Exception) -> str:
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", []))
    if isinstance(error, AskewError):
        return f"{error}{notes}"
    if _is_memory(error):  # torch's is a RuntimeError
        return (f"the memory is full ({first_line(error)}); take a smaller network, smaller batches or fewer clients "
                f"at once{notes}")
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror or first_line(error)}{notes}"
    return f"{type(error).__name__}: {first_line(error)}{notes}; for the place in the code, set ASKEW_TRACEBACK=1"


def _one_line(message: Warning | str, category: type[Warning], filename: str, lineno: int,
              line: str | None = None) -> str:
    """A warning of ours without the line of code that it comes from; others as Python writes them."""
    ours = Path(filename).is_relative_to(Path(__file__).parents[1])
    return f"askew: {message}\n" if ours else _python_format(message, category, filename, lineno, line)


if __name__ == "__main__":
    main()
