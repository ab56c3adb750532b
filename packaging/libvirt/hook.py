#!/usr/bin/python3 -IS
"""Makes the exports of a virtual machine when it starts, and removes them when it has ended.

libvirt    /etc/libvirt/hooks/qemu.d/hoistway NAME prepare|release begin|end -    the domain's XML on stdin
Proxmox    hookscript VMID pre-start|post-stop                                    disks in machines.conf

docs/howto/libvirt.md describes both. Exports named MACHINE.DISK belong to the machine: only these are made,
changed and removed. Calls for other events, and for machines without disks here, do nothing.

Exit status: 0 done, or nothing to do; 1 refused or failed (the machine is not started); 2 wrong usage.
"""

import configparser
import json
import os
import re
import signal
import subprocess
import sys
from xml.parsers import expat

NAMESPACE = "https://hoistway.example/libvirt/1.0"
SETTINGS = "/etc/hoistway/machines.conf"
# The longest string that libvirt passes between its own processes (VIR_NET_MESSAGE_STRING_MAX).
XML_BYTES_MOST = 4 << 20
# The server gives up on a device or a file after 5 s each, so a server that answers needs far less.
WORK_SECONDS_MOST = 60
UNDO_SECONDS_MOST = 30
# Each costs the server four requests, for which there is WORK_SECONDS_MOST.
DISKS_MOST = 64

HOST = {
    "hoistway": "/usr/bin/hoistway",
    "control": "/run/hoistway/control.sock",
    "sockets": "/run/hoistway",
    "owner_group": "",
}
MAX_KEYS = {
    "read_bps_max": "rbps",
    "write_bps_max": "wbps",
    "total_bps_max": "tbps",
    "read_iops_max": "riops",
    "write_iops_max": "wiops",
    "total_iops_max": "tiops",
}
MACHINE = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
# The pattern that the whole value of a key fits, and the pattern in words. `,` would end an option of `export add`.
KEYS = {
    "export": (MACHINE + r"\.[A-Za-z0-9_-]{1,32}", "MACHINE.DISK, of letters, digits, `_` and `-`"),
    "image": (r"/[A-Za-z0-9/._+:-]{1,1023}", "an absolute path of letters, digits and `/._+:-`"),
    "transport": (r"vhost-user|nbd", "vhost-user or nbd"),
    "device": (r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,255}", "the name of a [[device]] of the server"),
    "read_only": (r"yes|no", "yes or no"),
    "weight": (r"[1-9][0-9]{0,3}|10000", "a whole number from 1 to 10000"),
    "latency_target_us": (r"[1-9][0-9]{0,8}", "microseconds, a whole number from 1"),
    "burst_ms": (r"[1-9][0-9]{0,6}", "milliseconds, a whole number from 1"),
    **{key: (r"[1-9][0-9.]{0,14}[A-Za-z]{0,3}", "a number with an optional unit, such as 200MiB") for key in MAX_KEYS},
}


class Refused(Exception):
    """What is wrong, with its value and the remedy."""


class TimeIsOver(Exception):
    """The alarm that was set before; whatever was waited for has been given up."""


def checked(disk, machine):
    """The disk with its defaults, after a check of every key and value."""
    where = f"disk {disk['export']!r}" if "export" in disk else "a disk without `export`"
    for key, value in disk.items():
        if key not in KEYS:
            raise Refused(f"{where}: unknown key {key!r}; there are: {', '.join(KEYS)}")
        pattern, words = KEYS[key]
        if not re.fullmatch(pattern, value):
            raise Refused(f"{where}: {key} is {value!r}; give {words}")
    for key in ("export", "image"):
        if key not in disk:
            raise Refused(f"{where}: {key} is missing; give {KEYS[key][1]}")
    if disk["export"].rpartition(".")[0] != machine:
        raise Refused(f"{where}: the export belongs to another machine; name it {machine}.DISK")
    if ".." in disk["image"].split("/"):
        raise Refused(f"{where}: image is {disk['image']!r}; give a path without `..`")
    if "burst_ms" in disk and not MAX_KEYS.keys() & disk.keys():
        raise Refused(f"{where}: burst_ms without a limit; give one of {', '.join(MAX_KEYS)}")
    return {"transport": "vhost-user", "read_only": "no", "weight": "100", **disk}


def checked_all(disks, machine):
    if not re.fullmatch(MACHINE, machine):
        raise Refused(f"machine {machine!r}: rename it: letters, digits, `_.-`, at most 64")
    if len(disks) > DISKS_MOST:
        raise Refused(f"{len(disks)} disks; at most {DISKS_MOST} are served to a machine")
    disks = [checked(disk, machine) for disk in disks]
    for key in ("export", "image"):
        seen = [disk[key] for disk in disks]
        for value in seen:
            if seen.count(value) > 1:
                raise Refused(f"{key} {value!r} is given to two disks; give each its own")
    return disks


def disks_of_domain(text):
    """The attributes of each `metadata/hoistway:disks/hoistway:disk`, and the paths at which disks are attached. Of a
    domain's XML nothing else is used. Declarations are refused, so no entity is expanded."""
    parents = ["domain", "metadata", f"{NAMESPACE} disks"]
    stack, disks, attached = [], [], set()

    def refuse_declarations(*_):
        raise Refused("the XML has a <!DOCTYPE>; remove it: no entity is expanded here")

    def start(tag, attributes):
        if tag == f"{NAMESPACE} disk" and stack == parents:
            disks.append(attributes)
        elif tag.startswith(NAMESPACE + " ") and stack + [tag] != parents:
            raise Refused(f"<{tag.split(' ')[1]}> at a wrong place; give <metadata><hoistway:disks><hoistway:disk ...>")
        elif tag == "source" and stack == ["domain", "devices", "disk"]:
            attached.add(attributes.get("path"))
        stack.append(tag)

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartDoctypeDeclHandler = refuse_declarations
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: stack.pop()
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise Refused(f"the domain's XML: {error}") from error
    return disks, attached


def socket_of(disk, sockets):
    return f"{sockets}/{disk['export']}.vhost"


class Server:
    """The control socket of `hoistway serve`, by `hoistway ctl`. No shell is used."""

    def __init__(self, host):
        self.host = host

    def ctl(self, *arguments):
        """The answer to a command. What the server warns of was left out, so it is an error here."""
        command = [self.host["hoistway"], "ctl", "--control", self.host["control"], "--json", *arguments]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"LC_ALL": "C"}
            )
        except OSError as error:
            raise Refused(f"{command[0]}: {error.strerror}; correct `hoistway` in {settings_path()}") from error
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            answer = {"error": done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"}
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["ok"]

    def status(self):
        """The exports that new clients find, and the groups, by name."""
        status = self.ctl("status")
        exports = {export["name"]: export for export in status["exports"] if export["served"]}
        return exports, {group["path"]: group for group in status["groups"]}

    def make_all(self, disks):
        """Adds the exports, or gives an export that exists its weight and limits. If one fails, none is added."""
        exports, groups = self.status()
        added = []
        for disk in disks:
            name = disk["export"]
            try:
                if name in exports:
                    self.expect_same(disk, exports[name])
                else:
                    added.append(name)
                    self.add(disk)
                # A group that was there before has its old weight and limits: it outlives its last export by seconds.
                self.set_group(disk, groups.get(name, {}))
            except (Refused, TimeIsOver) as error:
                self.undo(added)
                if isinstance(error, Refused):
                    raise Refused(f"disk {name!r}, image {disk['image']!r}: {error}") from error
                raise

    def add(self, disk):
        device = ["--device", disk["device"]] if "device" in disk else []
        answer = self.ctl("export", "add", self.added(disk), *device)
        if "warnings" in answer:
            raise Refused("; ".join(answer["warnings"]))

    def added(self, disk):
        text = f"{disk['export']}={disk['image']}"
        if disk["read_only"] == "yes":
            text += ",read_only"
        if disk["transport"] == "vhost-user":
            text += f",vhost_user_blk.unix={socket_of(disk, self.host['sockets'])}"
            if self.host["owner_group"]:
                text += f",vhost_user_blk.owner_group={self.host['owner_group']}"
        return text

    def expect_same(self, disk, export):
        has_socket = os.path.exists(socket_of(disk, self.host["sockets"]))
        # The server shows a backing with its kind: `/srv/db.img (file, direct)`.
        facts = {
            "image": (export["backing"].rpartition(" (")[0] or export["backing"], disk["image"]),
            "read_only": ("yes" if export["read_only"] else "no", disk["read_only"]),
            "device": (export["device"], disk.get("device", export["device"])),
            "transport": (disk["transport"] if has_socket else "nbd", disk["transport"]),
        }
        for key, (has, wanted) in facts.items():
            if has != wanted:
                remedy = f"`hoistway ctl export remove {disk['export']}`, and start the machine again"
                raise Refused(f"the export exists with {key} {has!r}, not {wanted!r}; {remedy}")

    def set_group(self, disk, group):
        """Sets the weight, and the limits if there are any, here or in force, so that one that is left out ends."""
        self.ctl("set", "group", disk["export"], disk["weight"])
        given = {short: disk.get(key, "max") for key, short in MAX_KEYS.items()}
        if group.get("io.max") or any(value != "max" for value in given.values()):
            given["burst_ms"] = disk.get("burst_ms", "100")
            self.ctl("limit", disk["export"], "io.max", " ".join(f"{key}={value}" for key, value in given.items()))
        if group.get("io.latency") or "latency_target_us" in disk:
            self.ctl("limit", disk["export"], "io.latency", f"target={disk.get('latency_target_us', '0')}")

    def remove_all(self, machine):
        """The exports of the machine, also those that its XML does not have any more."""
        failures = []
        for name in self.status()[0]:
            if re.fullmatch(KEYS["export"][0], name) and name.rpartition(".")[0] == machine:
                try:
                    self.ctl("export", "remove", name)
                except Refused as error:
                    failures.append(f"export {name!r}: {error}")
        if failures:
            raise Refused("\n".join(failures))

    def undo(self, names):
        """Removes what may have been added. Failures are not reported: the user is told why it is undone."""
        signal.alarm(UNDO_SECONDS_MOST)
        for name in names:
            try:
                self.ctl("export", "remove", name)
            except Refused:
                pass
            except TimeIsOver:
                return


def settings_path():
    return os.environ.get("HOISTWAY_MACHINES", SETTINGS)


def settings():
    """The section [host], and the disks in the sections [MACHINE.DISK]. Without the file, the defaults."""
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        with open(settings_path(), encoding="utf-8") as file:
            parser.read_file(file)
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise Refused(f"{settings_path()}: {error}") from error
    sections = {name: dict(parser[name]) for name in parser.sections()}
    given = sections.pop("host", {})
    for key in given.keys() - HOST.keys():
        raise Refused(f"{settings_path()}: [host]: unknown key {key!r}; there are: {', '.join(HOST)}")
    for name in sections:
        if not re.fullmatch(KEYS["export"][0], name):
            raise Refused(f"{settings_path()}: section [{name}]; give [host], or [{KEYS['export'][1]}]")
    return {**HOST, **given}, [{"export": name, **keys} for name, keys in sections.items()]


def time_is_over(*_):
    raise TimeIsOver(f"not done within {WORK_SECONDS_MOST} s; does `hoistway ctl status` answer?")


def libvirt(machine, event):
    with open(0, "rb", closefd=False) as file:
        text = file.read(XML_BYTES_MOST + 1)
    if NAMESPACE.encode() not in text:
        return
    host, _ = settings()
    server = Server(host)
    if event == "release":
        server.remove_all(machine)
        return
    if len(text) > XML_BYTES_MOST:
        raise Refused(f"the domain's XML is longer than {XML_BYTES_MOST} bytes; shorten its metadata")
    disks, attached = disks_of_domain(text)
    disks = checked_all(disks, machine)
    for disk in disks:
        socket = socket_of(disk, host["sockets"])
        if disk["transport"] == "vhost-user" and socket not in attached:
            raise Refused(f"disk {disk['export']!r}: no <disk type='vhostuser'> has <source path='{socket}'>; add one")
    server.make_all(disks)


def proxmox(machine, event):
    host, disks = settings()
    disks = [disk for disk in disks if disk["export"].rpartition(".")[0] == machine]
    if not disks:
        return
    if event == "post-stop":
        Server(host).remove_all(machine)
    else:
        Server(host).make_all(checked_all(disks, machine))


def main(arguments):
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    machine, event = arguments[:2]
    # libvirt ends a running machine if `reconnect` fails: all other events succeed.
    work = {"prepare": libvirt, "release": libvirt, "pre-start": proxmox, "post-stop": proxmox}.get(event)
    if work is None:
        return 0
    signal.signal(signal.SIGALRM, time_is_over)
    signal.alarm(WORK_SECONDS_MOST)
    try:
        work(machine, event)
    except (Refused, TimeIsOver, OSError) as error:
        text = "".join(c if c.isprintable() or c == "\n" else "?" for c in str(error))
        print(f"hoistway: error: machine {machine!r}: {text}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
