"""Versions, machine and commit: what a number needs beside it to mean anything."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from askew.engine.threads import allowed_threads


def describe_environment(device: torch.device | str, **given: Any) -> dict[str, Any]:
    """Where and with what a run is computed.

    Args:
        given: what else is to be noted.
    """
    versions = {"python": platform.python_version(),
                **{package: version_of(package) for package in ("askew", "torch", "numpy", "safetensors")}}
    return {"versions": versions, "device": device_name(device), "threads": allowed_threads(),
            "platform": f"{platform.system()} {platform.machine()}", "cpus": os.cpu_count(), "commit": _commit(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"), **given}


def version_of(package: str) -> str:
    """As it was installed; askew may be run from its source tree."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def device_name(device: torch.device | str) -> str:
    device = torch.device(device)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device.type} ({platform.machine()})"


@functools.cache
def _commit() -> str | None:
    """The commit of the source tree that askew runs from, if it runs from one; '+' marks uncommitted changes."""
    folder = Path(__file__).parent

    def git(*args: str) -> str:
        done = subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        if not Path(git("rev-parse", "--show-toplevel"), "src", "askew").is_dir():
            return None
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None
