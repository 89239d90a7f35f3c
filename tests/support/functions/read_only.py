"""Programs of ours as on a read-only root file system: each change of a file is refused, and noted in the log.

An audit hook does that, since tests may run as root, and no mode of a directory stops root.
"""

from __future__ import annotations

# Devices and the kernel's own files are no part of an image. What is not Python's (uvloop) opens no files.
_HOOK = """
import errno, os, runpy, sys
CHANGES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod"}

def hook(event, args):
    path, writes = (args[0] if args else ""), event in CHANGES
    if event == "open":
        mode, flags = args[1] or "", args[2] or 0
        writes = any(letter in mode for letter in "wax+") or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes and isinstance(path, (str, bytes)) and not os.fsdecode(path).startswith(("/dev/", "/proc/")):
        os.write(2, f"WROTE {event} {path!r}\\n".encode())
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

sys.addaudithook(hook)
try:
    open("probe-of-the-hook", "w")
except OSError:
    pass
"""


def refusing_writes(module: str, before: str = "") -> str:
    """The program, for `python -c`, that runs a module so.

    Args:
        before: Python to run first.
    """
    return f"{_HOOK}\n{before}\nsys.argv = [{module!r}]\nrunpy.run_module({module!r}, run_name='__main__')\n"


def written(log: str) -> list[str]:
    """What it tried to change, by its log; the hook's own probe shows that it would have been seen."""
    noted = [line for line in log.splitlines() if line.startswith("WROTE ")]
    assert "probe-of-the-hook" in noted[0], "the hook did not run"
    return noted[1:]
