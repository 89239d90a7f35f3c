"""The wall clock of one running process is set off by so many seconds: of any program, unmodified, at any moment.

No name space of Linux moves CLOCK_REALTIME, and a library that is loaded before others does not reach nats-server,
which is linked statically. But Go and glibc read the time by the same function, `clock_gettime` of the vDSO: a page of
code that the kernel maps into each process, and of which a process that is written to gets a copy of its own. There the
function is made to begin with a jump to one that asks the kernel and adds the seconds. Monotonic clocks stay as they
are, as when an administrator sets the time.
"""

from __future__ import annotations

import os
import platform
import signal
import struct
import time
from pathlib import Path

REALTIME = 0
_SYSCALL = 228
_SECTION, _SYMBOL, _DYNSYM = 64, 24, 11
_FUNCTION = b"__vdso_clock_gettime"


def why_not() -> str:
    """Why clocks can't be set off here; nothing where they can."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        here = f"{platform.system()} on {platform.machine()}"
        return f"clocks are set off by machine code for Linux on x86_64, and this is {here}"
    return "" if _vdso("self") else "this kernel maps no vDSO"


def set_off(pid: int, seconds: int) -> None:
    """From now on the process reads a wall clock that is off by so many seconds; 0 sets it right.

    Raises:
        TimeoutError: one of its threads was always in the midst of reading the time.
    """
    image = _image()
    offset = _offset(image)
    room = len(image.rstrip(b"\0")) + 15 & ~15
    # The numbers that the jump holds are counted from its end.
    jump = b"\xe9" + struct.pack("<i", room - (offset + 5))
    deadline = time.monotonic() + 10
    while True:
        os.kill(pid, signal.SIGSTOP)
        try:
            # Only of a stopped process: one that has just begun may still become its program.
            if _has_stopped(pid) and (found := _vdso(str(pid))) is not None and _stands_outside(pid, *found):
                with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
                    for at, code in ((room, _added(seconds)), (offset, jump)):
                        memory.seek(found[0] + at)
                        memory.write(code)
                return
        finally:
            os.kill(pid, signal.SIGCONT)
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} was always in the midst of reading the time")
        time.sleep(0.001)


def _added(seconds: int) -> bytes:
    """`clock_gettime(id, time)`: ask the kernel, then add to the seconds if it is the wall clock and went well."""
    return (
        b"\xb8" + struct.pack("<i", _SYSCALL)  # mov eax, clock_gettime
        + b"\x0f\x05"  # syscall
        + b"\x85\xff\x75\x0b"  # test edi, edi; jne the end
        + b"\x85\xc0\x75\x07"  # test eax, eax; jne the end
        + b"\x48\x81\x06" + struct.pack("<i", seconds)  # add qword [rsi], seconds
        + b"\xc3"  # ret
    )  # fmt: skip


def _vdso(pid: str) -> tuple[int, int] | None:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if line.endswith("[vdso]"):
            start, end = line.split(" ", 1)[0].split("-")
            return int(start, 16), int(end, 16)
    return None


def _image() -> bytes:
    """The vDSO as this process has it: the same in all, but for the address."""
    start, end = _vdso("self") or (0, 0)
    with Path("/proc/self/mem").open("rb", buffering=0) as memory:
        memory.seek(start)
        return memory.read(end - start)


def _offset(image: bytes) -> int:
    """Where the function lies, by the ELF image's dynamic symbols."""
    (table,), (count,) = struct.unpack_from("<Q", image, 40), struct.unpack_from("<H", image, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + _SECTION * number) for number in range(count)]
    symbols = next(section for section in sections if section[1] == _DYNSYM)
    names = sections[symbols[6]][4]
    for at in range(symbols[4], symbols[4] + symbols[5], _SYMBOL):
        name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, at)
        if image[names + name :].startswith(_FUNCTION + b"\0"):
            return int(value)
    raise LookupError(f"the vDSO has no {_FUNCTION.decode()}")


def _stands_outside(pid: int, start: int, end: int) -> bool:
    """Is none of the threads within the vDSO?"""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        words = (thread / "syscall").read_text().split()
        if words == ["running"] or start <= int(words[-1], 16) < end:
            return False
    return True


def _has_stopped(pid: int) -> bool:
    """Have all of its threads?"""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return all((thread / "stat").read_text().rpartition(")")[2].split()[0] in "Tt" for thread in tasks)
