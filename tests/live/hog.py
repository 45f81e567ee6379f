"""Holds as much memory as it is told to, line by line on standard input, in MiB.

Answers each line with `held N` once every page of it is real. 0 gives all back to the system.
"""

import mmap
import sys

MIB = 1 << 20


def main():
    held = []
    for line in sys.stdin:
        wanted = int(line)
        while len(held) > wanted:
            held.pop().close()
        while len(held) < wanted:
            block = mmap.mmap(-1, MIB)
            for page in range(0, MIB, mmap.PAGESIZE):
                block[page] = 1
            held.append(block)
        print(f"held {len(held)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
