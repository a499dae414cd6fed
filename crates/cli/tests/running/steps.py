"""Kills processes at a system call or some instructions behind it, by ptrace. One command a line:

walk PID CALLS STEPS             of a process that runs
child PARENT VICTIM CALLS STEPS  VICTIM is killed, and PARENT's next child after so many calls
start WHICH CALLS STEPS WORD...  of what WORD... starts: 0 itself, 1 its first child, 2 its second;
                                 +NAME=VALUE and -NAME in front of it change its environment

A call counts twice: where it begins and where it ends. A process that sleeps in a call is killed
there. The answer is one line: where it was killed; for `start` also what became of the rest.
"""

import ctypes
import os
import signal
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
CONT, STEP, DETACH, SYSCALL = 7, 9, 17, 24
EVENT_MESSAGE, SEIZE, INTERRUPT = 0x4201, 0x4206, 0x4207
# TRACESYSGOOD; TRACEFORK and TRACEVFORK
CALLS, CHILDREN = 1, 2 | 4
WALL = 0x40000000
# Nothing here takes so long.
LONG = 20


def ptrace(what, pid, data=0):
    return libc.ptrace(what, pid, 0, data) != -1


def stop(pid, seconds):
    """The next status of a process; None if none comes."""
    begun = time.monotonic()
    while True:
        try:
            got, status = os.waitpid(pid, WALL | os.WNOHANG)
        except ChildProcessError:
            return 0
        if got:
            return status
        waited = time.monotonic() - begun
        if waited > seconds:
            return None
        if waited > 0.0002:
            time.sleep(0.0001)


def is_over(status):
    return status is not None and not os.WIFSTOPPED(status)


def signal_of(status):
    """The signal to hand on when the process goes on: those that are not ptrace's own."""
    number = os.WSTOPSIG(status)
    if status >> 16 or number & 0x7F == signal.SIGTRAP:
        return 0
    return number


def new_child(pid):
    """The child that a process stopped for."""
    number = ctypes.c_ulong()
    libc.ptrace(EVENT_MESSAGE, pid, 0, ctypes.addressof(number))
    stop(number.value, LONG)
    return number.value


def kill(pid):
    """Whether there was such a process, also one that its parent has not waited for."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def walk(pid, calls, steps, hand_on=0):
    """Lets a process that is stopped go on, and kills it."""
    where = "there"
    for n in range(calls + steps):
        if not ptrace(SYSCALL if n < calls else STEP, pid, hand_on):
            break
        status = stop(pid, 0.02)
        if status is None:
            where = "asleep"
            break
        if is_over(status):
            return "ended"
        if status >> 16 in (1, 2):
            ptrace(DETACH, new_child(pid))
        hand_on = signal_of(status)
    kill(pid)
    while not is_over(stop(pid, LONG)):
        pass
    return where


def pause(pid):
    """Stops a process: the signal that it stopped for, which may be none; None if it has ended."""
    ptrace(INTERRUPT, pid)
    status = stop(pid, LONG)
    if status is None or is_over(status):
        return None
    if status >> 16 in (1, 2):
        # It was about to stop for this.
        ptrace(DETACH, new_child(pid))
    return signal_of(status)


def walk_running(pid, calls, steps):
    if not ptrace(SEIZE, pid, CALLS):
        return "gone"
    hand_on = pause(pid)
    return "ended" if hand_on is None else walk(pid, calls, steps, hand_on)


def next_child(pid, count, hand_on=0):
    """Lets a process that is stopped go on until its next child but `count`, which is stopped."""
    while ptrace(CONT, pid, hand_on):
        status = stop(pid, LONG)
        if status is None:
            ptrace(DETACH, pid, pause(pid))
        if status is None or is_over(status):
            return None
        hand_on = signal_of(status)
        if status >> 16 not in (1, 2):
            continue
        child = new_child(pid)
        if count == 0:
            ptrace(DETACH, pid)
            return child
        count -= 1
        ptrace(DETACH, child)
    return None


def walk_child(parent, victim, calls, steps):
    if not ptrace(SEIZE, parent, CALLS | CHILDREN):
        return "gone"
    hand_on = pause(parent)
    if hand_on is None:
        return "ended"
    if not kill(victim):
        # Its parent has another child in its place already, and makes none now.
        ptrace(DETACH, parent, hand_on)
        return "gone"
    child = next_child(parent, 0, hand_on)
    return "no child" if child is None else walk(child, calls, steps)


def execute(words):
    while words[0][0] in "+-":
        name, _, value = words[0][1:].partition("=")
        if words[0][0] == "+":
            os.environ[name] = value
        else:
            os.environ.pop(name, None)
        words = words[1:]
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.execv(words[0], words)


def start(which, calls, steps, words):
    gate, opened = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(gate, 1)
        execute(words)
    if not ptrace(SEIZE, pid, CALLS | CHILDREN):
        kill(pid)
        return "not allowed"
    os.write(opened, b"x")
    os.close(opened)
    os.close(gate)
    pause(pid)
    if which == 0:
        where = walk(pid, calls, steps)
    else:
        child = next_child(pid, which - 1)
        where = "no child" if child is None else walk(child, calls, steps)
    return where + " " + rest()


def rest():
    """Everything that was started ends by itself, also what its parent did not wait for."""
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        try:
            pid, status = os.waitpid(-1, WALL | os.WNOHANG)
            if pid == 0:
                time.sleep(0.0005)
            elif os.WIFSTOPPED(status):
                # A child that was made while its maker was killed: it stopped for this process.
                ptrace(DETACH, pid)
        except ChildProcessError:
            return "over"
    return "hangs"


# Processes whose parent has ended come here.
libc.prctl(36, 1, 0, 0, 0)
print("ready", flush=True)
for line in sys.stdin:
    what, *words = line.rstrip("\n").split("\t")
    if what == "walk":
        print(walk_running(*map(int, words)), flush=True)
    elif what == "child":
        print(walk_child(*map(int, words)), flush=True)
    else:
        print(start(*map(int, words[:3]), words[3:]), flush=True)
