#!/usr/bin/env python3
"""Runs a command on a terminal of its own and prints what the terminal received.

    on_terminal.py [--columns N] [--answer PROMPT TEXT] COMMAND [ARGUMENT...]

When PROMPT appears, TEXT is typed, with \\n for the return key and \\4 for the end of input. The exit status
is the command's; 124 when nothing came for a minute.
"""

import argparse
import fcntl
import os
import pty
import select
import struct
import sys
import termios

SILENCE_SECONDS = 60


def received(terminal, answer):
    """Everything until the command closes the terminal; None after too long a silence."""
    text = b""
    prompt, typed = (word.encode() for word in answer) if answer else (None, b"")
    while select.select([terminal], [], [], SILENCE_SECONDS)[0]:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # how Linux says that nobody has the other end open
            piece = b""
        if not piece:
            return text
        text += piece
        if prompt and prompt in text:
            os.write(terminal, typed.replace(b"\\n", b"\n").replace(b"\\4", b"\x04"))
            prompt = None
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--answer", nargs=2, metavar=("PROMPT", "TEXT"))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    size = struct.pack("HHHH", 24, args.columns, 0, 0)
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)  # here, since the command may ask at once
        os.execvp(args.command[0], args.command)
    text = received(terminal, args.answer)
    if text is None:
        os.kill(child, 9)
        os.waitpid(child, 0)
        return 124
    sys.stdout.buffer.write(text)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
