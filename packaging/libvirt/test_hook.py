"""hook.py with a real server, without libvirt: HOISTWAY=target/debug/hoistway python3 packaging/libvirt/test_hook.py"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOISTWAY = os.environ.get("HOISTWAY") or shutil.which("hoistway")
NAMESPACE = "https://hoistway.example/libvirt/1.0"
# No call takes nearly as long; a hook that hangs is found, on a busy machine too.
HANGS_SECONDS = 300


class Hook(unittest.TestCase):
    """A server with one export that is not a machine's, and two images."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.at = Path(directory.name)
        for name in ("held", "a", "b"):
            (self.at / f"{name}.img").write_bytes(b"")
            os.truncate(self.at / f"{name}.img", 16 << 20)
        self.write_settings()
        self.start_server()

    def write_settings(self, text="", hoistway=HOISTWAY):
        host = f"[host]\nhoistway = {hoistway}\ncontrol = {self.at}/control\nsockets = {self.at}\n"
        (self.at / "machines.conf").write_text(host + text)

    def start_server(self):
        command = [HOISTWAY, "serve", "--nbd", f"unix:{self.at}/nbd", "--control", f"{self.at}/control"]
        command += ["--rotational", "no", "--export", f"held={self.at}/held.img"]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(self.server.stdout.close)
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        self.assertIn(b"listening", self.server.stdout.readline())

    def hook(self, *arguments, text="", code=0):
        """Calls the hook; returns what it said."""
        environment = {"PATH": os.environ["PATH"], "HOISTWAY_MACHINES": f"{self.at}/machines.conf"}
        done = subprocess.run(
            ["python3", "-IS", HERE / "hook.py", *arguments],
            input=text if isinstance(text, bytes) else text.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=HANGS_SECONDS,
        )
        said = done.stderr.decode()
        self.assertEqual((done.returncode, done.stdout), (code, b""), said)
        return said

    def ctl(self, *arguments):
        command = [HOISTWAY, "ctl", "--control", f"{self.at}/control", "--json", *arguments]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["ok"]

    def served(self):
        """By export: backing, weight and limits."""
        status = self.ctl("status")
        groups = {group["path"]: group for group in status["groups"]}
        exports = [export for export in status["exports"] if export["served"] and export["name"] != "held"]

        def of(export):
            group = groups[export["name"]]
            return (export["backing"].split(" ")[0], group["weight"], group["io.max"], group["io.latency"])

        return {export["name"]: of(export) for export in exports}

    def domain(self, disks, name="db1", attached=("db1.root", "db1.data"), head=""):
        """A domain's XML with these elements in its metadata."""
        sources = (f"<source type='unix' path='{self.at}/{export}.vhost'/>" for export in attached)
        devices = "".join(f"<disk type='vhostuser'>{source}</disk>" for source in sources)
        return (
            f"{head}<domain type='kvm'><name>{name}</name><metadata><hoistway:disks xmlns:hoistway='{NAMESPACE}'>"
            f"{disks}</hoistway:disks></metadata><devices>{devices}</devices></domain>"
        )

    def disk(self, export="db1.root", image="a", **keys):
        keys = {"export": export, "image": f"{self.at}/{image}.img", **keys}
        return "<hoistway:disk " + " ".join(f'{key}="{value}"' for key, value in keys.items()) + "/>"

    def prepare(self, *disks, code=0, **more):
        return self.hook("db1", "prepare", "begin", "-", text=self.domain("".join(disks), **more), code=code)

    def release(self, text=None):
        return self.hook("db1", "release", "end", "shutdown", text=text or self.domain(self.disk()))

    def test_exports_exist_from_prepare_to_release(self):
        limits = {"latency_target_us": 5000, "read_bps_max": "50MiB", "write_iops_max": "2k", "burst_ms": 50}
        disks = [self.disk(weight=800, **limits), self.disk("db1.data", "b", transport="nbd")]
        self.prepare(*disks)
        io_max = "rbps=52428800 wbps=max riops=max wiops=2000 burst_ms=50"
        expected = {
            "db1.root": (f"{self.at}/a.img", 800, io_max, "target=5000"),
            "db1.data": (f"{self.at}/b.img", 100, None, None),
        }
        self.assertEqual(self.served(), expected)
        self.assertTrue((self.at / "db1.root.vhost").is_socket())
        self.assertFalse((self.at / "db1.data.vhost").exists())
        self.prepare(*disks)
        self.assertEqual(self.served(), expected)
        self.release()
        self.assertEqual(self.served(), {})
        self.assertFalse((self.at / "db1.root.vhost").exists())
        self.release()

    def test_an_export_that_exists_gets_the_weight_and_limits_of_the_xml(self):
        self.prepare(self.disk(weight=800, read_bps_max=4096, latency_target_us=9))
        self.prepare(self.disk(weight=50))
        root = self.served()["db1.root"]
        self.assertEqual((root[1], root[3]), (50, None))
        self.assertNotIn("bps", root[2] or "")
        said = self.prepare(self.disk(image="b"), code=1)
        self.assertRegex(said, "the export exists with image '.*/a.img', not '.*/b.img'; .*export remove db1.root")
        self.assertEqual(self.served()["db1.root"], root)

    def test_a_new_start_begins_with_the_weight_and_limits_of_its_xml(self):
        self.prepare(self.disk(weight=800, read_bps_max=4096, latency_target_us=9))
        self.release()
        self.prepare(self.disk())
        root = self.served()["db1.root"]
        self.assertEqual((root[1], root[3]), (100, None))
        self.assertNotIn("bps", root[2] or "")

    def test_after_a_restart_of_the_server_the_same_call_brings_the_exports_back(self):
        self.prepare(self.disk(weight=7))
        self.server.kill()
        self.server.wait()
        self.start_server()
        self.assertEqual(self.served(), {})
        self.prepare(self.disk(weight=7))
        self.assertEqual(self.served()["db1.root"][1], 7)

    def test_a_failure_leaves_what_was_there_before(self):
        self.prepare(self.disk(weight=7))
        said = self.prepare(self.disk(weight=7), self.disk("db1.data", "missing"), code=1)
        self.assertRegex(said, r"machine 'db1': disk 'db1.data', image '.*/missing.img': (?s:.*)does not exist")
        self.assertEqual(list(self.served()), ["db1.root"])
        self.release()
        self.prepare(self.disk(), self.disk("db1.data", "missing"), code=1)
        self.assertEqual(self.served(), {})
        # The server makes the export and warns that it has no socket.
        self.write_settings("owner_group = no-such-group\n")
        self.assertIn("no-such-group", self.prepare(self.disk(), code=1))
        self.assertEqual(self.served(), {})

    def test_the_exports_of_others_are_left_alone(self):
        text = self.domain(self.disk("db1.b.root"), name="db1.b", attached=["db1.b.root"])
        self.hook("db1.b", "prepare", "begin", "-", text=text)
        for export in ("db1.b.root", "db2.root"):
            self.assertIn("belongs to another machine; name it db1.DISK", self.prepare(self.disk(export), code=1))
        for export in ("held", "db1"):
            self.assertIn(f"export is '{export}'; give MACHINE.DISK", self.prepare(self.disk(export), code=1))
        self.release()
        self.assertEqual(list(self.served()), ["db1.b.root"])
        self.assertEqual(self.ctl("status")["exports"][0]["name"], "held")

    def test_wrong_disks_are_refused_with_value_and_remedy(self):
        cases = [
            (self.disk(weight=0), "disk 'db1.root': weight is '0'; give a whole number from 1 to 10000"),
            (self.disk(weight=10001), "weight is '10001'"),
            (self.disk(weight="\u0667"), "weight is"),
            (self.disk(image="../a"), "give a path without `..`"),
            (self.disk().replace(str(self.at), "relative"), "give an absolute path"),
            (self.disk(image="a,weight=9"), "image is"),
            (self.disk(image="a&#10;b"), "image is"),
            (self.disk().replace(".img", ".img&#10;"), "image is"),
            (self.disk(image="$(touch x)"), "image is"),
            ('<hoistway:disk export="db1.root"/>', "image is missing"),
            ('<hoistway:disk image="/a"/>', "a disk without `export`: export is missing"),
            (self.disk("db1.ro/ot"), "export is 'db1.ro/ot'"),
            (self.disk("db1.root&#10;"), "export is"),
            (self.disk("-rf"), "export is"),
            (self.disk(wieght=3), "unknown key 'wieght'; there are: export, image,"),
            (self.disk(transport="ublk"), "give vhost-user or nbd"),
            (self.disk(read_only="true"), "give yes or no"),
            (self.disk(read_bps_max="50MiB wbps=1"), "read_bps_max is"),
            (self.disk(burst_ms=5), "burst_ms without a limit"),
            (self.disk() + self.disk(), "export 'db1.root' is given to two disks"),
            (self.disk() + self.disk("db1.data"), "is given to two disks"),
            (self.disk("db1.more"), "no <disk type='vhostuser'> has"),
            ("".join(self.disk(f"db1.{n}", f"{n}") for n in range(65)), "65 disks; at most 64"),
            (f"<hoistway:group>{self.disk()}</hoistway:group>", "<group> at a wrong place"),
            (f"<hoistway:disk><x>{self.disk()}</x></hoistway:disk>", "<disk> at a wrong place"),
            ("<hoistway:disk", "the domain's XML: not well-formed"),
            ("&nothing;", "the domain's XML: undefined entity"),
        ]
        for disks, reason in cases:
            with self.subTest(disks=disks):
                self.assertIn(reason, self.prepare(disks, code=1))
        self.assertEqual(self.served(), {})

    def test_no_entity_is_expanded(self):
        laughs = '<!ENTITY l0 "ha">' + "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(12))
        file = f'<!ENTITY l12 SYSTEM "file://{self.at}/machines.conf">'
        for declarations in (laughs, file):
            text = self.domain(self.disk(weight="&l12;"), head=f"<!DOCTYPE domain [{declarations}]>")
            self.assertIn("<!DOCTYPE>", self.hook("db1", "prepare", "begin", "-", text=text, code=1))

    def test_sizes_are_bounded(self):
        text = self.domain(self.disk() + " " * (4 << 20))
        self.assertIn("longer than 4194304 bytes", self.hook("db1", "prepare", "begin", "-", text=text, code=1))
        self.assertIn("rename it", self.hook("d" * 65, "prepare", "begin", "-", text=self.domain(self.disk()), code=1))
        self.assertIn("rename it", self.hook("a b", "prepare", "begin", "-", text=self.domain(self.disk()), code=1))
        text = self.domain("<a>" * 300_000 + "</a>" * 300_000)
        self.hook("db1", "prepare", "begin", "-", text=text)

    def test_other_domains_and_events_call_nothing(self):
        self.write_settings(hoistway="/nonexistent")
        self.assertIn("correct `hoistway`", self.prepare(self.disk(), code=1))
        for text in ("", "<domain><name>db1</name></domain>", b"\xff\x00", "x" * (5 << 20)):
            self.hook("db1", "prepare", "begin", "-", text=text)
            self.hook("db1", "release", "end", "-", text=text)
        for event in "migrate restore reconnect attach start started stopped post-start pre-stop".split():
            self.hook("db1", event, "begin", "-", text=self.domain("<hoistway:disk"))
        self.hook("104", "pre-start")
        self.hook("db1", code=2)

    def test_a_server_that_does_not_answer_is_an_error(self):
        self.server.kill()
        self.server.wait()
        self.assertIn("no answer from the control socket", self.prepare(self.disk(), code=1))
        # A command that never ends. The bound of the hook is shortened; nothing else of it is changed.
        (self.at / "silent").write_text("#!/bin/sh\nexec sleep 3600\n")
        (self.at / "silent").chmod(0o755)
        self.write_settings(hoistway=self.at / "silent")
        source = (HERE / "hook.py").read_text()
        short = re.sub(r"(?m)^(WORK|UNDO)_SECONDS_MOST = .*", r"\1_SECONDS_MOST = 1", source)
        self.assertNotEqual(source, short)
        (self.at / "hook.py").write_text(short)
        done = subprocess.run(
            ["python3", self.at / "hook.py", "db1", "prepare", "begin", "-"],
            input=self.domain(self.disk()).encode(),
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOISTWAY_MACHINES": f"{self.at}/machines.conf"},
            timeout=HANGS_SECONDS,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"not done within 1 s", done.stderr)

    def test_proxmox(self):
        section = f"[104.data]\nimage = {self.at}/a.img\nweight = 300\nread_iops_max = 500\n[105.data]\nimage = x\n"
        self.write_settings(section)
        self.hook("104", "pre-start")
        self.hook("104", "pre-start")
        io_max = "rbps=max wbps=max riops=500 wiops=max"
        name, (backing, weight, has_max, latency) = self.served().popitem()
        self.assertEqual((name, backing, weight, latency), ("104.data", f"{self.at}/a.img", 300, None))
        self.assertTrue(has_max.startswith(io_max), has_max)
        self.assertIn("give an absolute path", self.hook("105", "pre-start", code=1))
        self.hook("104", "post-stop")
        self.assertEqual(self.served(), {})
        self.write_settings("[104]\nimage = /a\n")
        self.assertIn("section [104]; give [host], or", self.hook("104", "pre-start", code=1))
        self.write_settings("[host]\n")
        self.assertIn("machines.conf", self.hook("104", "pre-start", code=1))

    def test_the_examples_hold(self):
        """The how-to's domain, with the paths of this server, and what is commented out in machines.conf."""
        page = (HERE / "../../docs/howto/libvirt.md").read_text()
        text = re.search(r"(?s)```xml\n(<domain.*?)```", page).group(1)
        text = text.replace("/var/lib/hoistway/db1.img", f"{self.at}/a.img").replace("/run/hoistway", str(self.at))
        self.hook("db1", "prepare", "begin", "-", text=text)
        self.assertEqual(self.served()["db1.root"][1], 800)
        self.release(text)
        self.assertEqual(self.served(), {})
        sample = (HERE / "machines.conf").read_text()
        for key in ("control", "sockets"):
            self.assertIn(f"\n{key} = /run/hoistway", sample)
        disk = re.search(r"(?s)# (\[104.*)", sample).group(1).replace("\n# ", "\n")
        self.write_settings(disk.replace("/var/lib/hoistway/104-data.img", f"{self.at}/b.img"))
        self.hook("104", "pre-start")
        self.assertEqual(self.served()["104.data"][1], 800)


if __name__ == "__main__":
    unittest.main()
