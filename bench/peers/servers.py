"""The NBD servers that are compared: how each is started on a file, and how its processor time is read."""

import os
import shutil
import signal
import socket
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """One server process on one unix socket. `argv` and `export` come from a row of SERVERS."""

    def __init__(self, name, argv, export, work, log):
        self.name, self.argv, self.export = name, argv, export
        self.socket = os.path.join(work, "nbd.sock")
        self.log = log
        self.process = None

    def __enter__(self):
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        self.log.write(f"$ {' '.join(self.argv)}\n")
        self.log.flush()
        self.process = subprocess.Popen(self.argv, stdout=self.log, stderr=self.log, start_new_session=True)
        deadline = time.monotonic() + 10
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"peers: {self.name} did not start; see {self.log.name}")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def answers(self):
        probe = socket.socket(socket.AF_UNIX)
        try:
            probe.connect(self.socket)
            return probe.recv(8) == b"NBDMAGIC"
        except OSError:
            return False
        finally:
            probe.close()

    def uri(self):
        return f"nbd+unix:///{self.export}?socket={self.socket}"

    def cpu_seconds(self):
        """User and system time of the process, its threads and its reaped children, and of living children."""
        return sum(_cpu(pid) for pid in _tree(self.process.pid))


def _cpu(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / TICKS


def _tree(pid):
    pids = [pid]
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                for child in file.read().split():
                    pids += _tree(int(child))
    except OSError:
        pass
    return pids


def hoistway(binary, scheduler, backing, work, *, cache="direct", second=None):
    """Our server: the export under test in a group of weight 100, a second tenant of weight 800 beside it."""
    second = second or os.path.join(work, "second.img")
    if not os.path.exists(second):
        with open(second, "wb") as file:
            file.truncate(64 << 20)
    config = os.path.join(work, f"serve-{scheduler}.toml")
    with open(config, "w") as file:
        file.write(
            f'[[device]]\nname = "d0"\nscheduler = "{scheduler}"\ncache = "{cache}"\n'
            f'[[device.export]]\nname = "x"\nbacking = "{backing}"\ngroup = "light"\n'
            f'[[device.export]]\nname = "y"\nbacking = "{second}"\ngroup = "heavy"\n'
            f'[[group]]\npath = "light"\nweight = 100\n[[group]]\npath = "heavy"\nweight = 800\n'
            f'[[listen]]\nunix = "{work}/nbd.sock"\n[control]\nunix = "{work}/control.sock"\n'
        )
    return [binary, "serve", config], "x"


def peers(backing, work, direct):
    """name -> (argv, export) of every peer that is installed. Peers that cannot do O_DIRECT are left out there."""
    sock = os.path.join(work, "nbd.sock")
    cache = "none" if direct else "writeback"
    rows = {}
    if not direct and shutil.which("nbdkit"):
        rows["nbdkit file"] = (["nbdkit", "-f", "-U", sock, "file", backing], "")
    if shutil.which("qemu-nbd"):
        for aio in ["io_uring"] if direct else ["io_uring", "threads"]:
            argv = ["qemu-nbd", "-f", "raw", "-t", "-e", "16", f"--cache={cache}", f"--aio={aio}", "-k", sock, backing]
            rows[f"qemu-nbd {aio}"] = (argv, "")
    if shutil.which("qemu-storage-daemon"):
        argv = [
            "qemu-storage-daemon",
            "--blockdev", f"driver=file,filename={backing},node-name=f,aio=io_uring,cache.direct={'on' if direct else 'off'}",
            "--nbd-server", f"addr.type=unix,addr.path={sock}",
            "--export", "type=nbd,id=e,node-name=f,name=x,writable=on",
        ]
        rows["qemu-storage-daemon"] = (argv, "x")
    return rows
