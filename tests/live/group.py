"""A group of processes with a memory limit of its own, by the kernel's group file system.

Versions 1 and 2. It needs the right to make one: root, or a sudo that does not ask.
"""

import os
import subprocess

ROOT = "/sys/fs/cgroup"
MIB = 1 << 20


def put(path, text):
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(str(text))
    except PermissionError:
        subprocess.run(
            ["sudo", "-n", "tee", path],
            input=str(text).encode(),
            stdout=subprocess.DEVNULL,
            check=True,
        )


class Group:
    """Made at once; `remove` when its processes are gone."""

    def __init__(self, name, limit_mib):
        self.one = os.path.isdir(f"{ROOT}/memory")
        if not self.one:
            put(f"{ROOT}/cgroup.subtree_control", "+memory")
        self.path = f"{ROOT}/memory/{name}" if self.one else f"{ROOT}/{name}"
        try:
            os.mkdir(self.path)
        except PermissionError:
            subprocess.run(["sudo", "-n", "mkdir", self.path], check=True)
        limit = limit_mib * MIB
        put(self.file("memory.limit_in_bytes", "memory.max"), limit)
        for extra in ("memory.memsw.limit_in_bytes", "memory.swap.max"):
            # Swap would only put the end off.
            if os.path.exists(f"{self.path}/{extra}"):
                put(f"{self.path}/{extra}", limit if self.one else 0)

    def file(self, one, two):
        return f"{self.path}/{one if self.one else two}"

    def take(self, pid):
        put(f"{self.path}/cgroup.procs", pid)

    def held_mib(self):
        """What cannot be taken back, as OneSlot counts it."""
        used = int(read(self.file("memory.usage_in_bytes", "memory.current")))
        names = ("inactive_file", "active_file", "slab_reclaimable")
        wanted = {f"total_{name}" for name in names[:2]} if self.one else set(names)
        for line in read(f"{self.path}/memory.stat").splitlines():
            name, value = line.split()
            if name in wanted:
                used -= int(value)
        return used // MIB

    def kills(self):
        for line in read(self.file("memory.oom_control", "memory.events")).splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return 0

    def remove(self):
        try:
            os.rmdir(self.path)
        except PermissionError:
            subprocess.run(["sudo", "-n", "rmdir", self.path], check=False)
        except OSError:
            pass


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()
