"""What the machine says of itself and of this process."""

import os
import platform
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]

MEGABYTE: Final = 1_000_000


def resident() -> float:
    """The resident set of this process, in megabytes."""
    return float(psutil.Process().memory_info().rss) / MEGABYTE


def file_system(folder: Path) -> str:
    """The kind of file system that `folder` lies on."""
    mounts = {Path(item.mountpoint): str(item.fstype) for item in psutil.disk_partitions(all=True)}
    resolved = folder.resolve()
    return next((mounts[path] for path in (resolved, *resolved.parents) if path in mounts), 'unknown')


def description() -> dict[str, str]:
    memory = psutil.virtual_memory().total / 2**30
    return {
        'Python': platform.python_version(),
        'machine': f'{platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB',
        'system': f'{platform.system()} {platform.release()}',
    }
