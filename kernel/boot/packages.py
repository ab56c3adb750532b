"""Debian's packages of a kernel, unpacked below the cache: its image, its headers, and the tools that
build a module for it. Nothing is installed on this machine; the network is used once for each kernel.

Kernels that are newer than the machine's own suites come from NEWER_SUITES, whose programs need a
newer C library than the machine's: they are started by the loader of that suite.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = Path(os.environ.get("HOIST_CACHE", "/var/tmp/hoistway-kernel"))
# The second has the newest kernels, the first the compiler that these were built with.
NEWER_SUITES = ["trixie", "trixie-backports"]
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Beside the compiler; `pahole` writes the module's types and reads the kernel's.
TOOLS = """pahole libbpf1 libdw1t64 libelf1t64 libbz2-1.0 liblzma5 libgmp10 libmpc3 libmpfr6 libisl23 libzstd1 zlib1g libjansson4
    libgcc-s1 libstdc++6 libc6""".split()


def skip(reason):
    print(f"skipped: the kernel module's tests: {reason}")
    sys.exit(77)


def run(*command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"boot: {command[0]} failed\n{done.stdout}{done.stderr}")
    return done.stdout


def newest(series):
    """The newest kernel of a series for which Debian has a package, or which was unpacked before."""
    pattern = rf"^linux-(?:image|binary)-({re.escape(series)}\.\S*?\d-?(?:\+deb\d+)?-amd64)(?:-unsigned)?$"
    names = [path.parent.name for path in CACHE.glob(f"{series}.*-amd64/image")]
    for options in ([], newer_suites) if not names else ():
        options = options() if callable(options) else options
        search = subprocess.run(["apt-cache", *options, "pkgnames", "linux-"], capture_output=True, text=True).stdout
        names = names or re.findall(pattern, search, re.M)
    if not names:
        skip(f"no kernel {series} in Debian's packages")
    return max(names, key=lambda name: [int(part) for part in re.findall(r"\d+", name)])


def newer_suites():
    """Options of apt with which it sees the newer suites, with lists of its own. The mirror is that of
    the machine's own suites."""
    place = CACHE / "apt"
    options = ["-o", f"Dir::Etc::sourcelist={place}/sources.list", "-o", f"Dir::Etc::sourceparts={place}/none",
               "-o", f"Dir::State::lists={place}/lists", "-o", f"Dir::Cache={place}/cache"]
    lists = list((place / "lists").glob("*Packages*"))
    if not all(any(f"dists_{suite}_" in path.name for path in lists) for suite in NEWER_SUITES):
        known = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN)", "Created-By: Packages"],
                               capture_output=True, text=True).stdout
        own = re.search(r"^(\S+/debian/) Debian$", known, re.M)
        if not own:
            return []
        for folder in ("none", "lists/partial", "cache/archives/partial"):
            (place / folder).mkdir(parents=True, exist_ok=True)
        (place / "sources.list").write_text("".join(f"deb [signed-by={KEYS}] {own[1]} {suite} main\n" for suite in NEWER_SUITES))
        subprocess.run(["apt-get", *options, "update"], capture_output=True)
    return options


def unpacked(folder, forms):
    """Downloads the first form (options of apt, names of packages) that there is, and unpacks it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for options, names in forms:
        options = options() if callable(options) else options
        done = subprocess.run(["apt-get", *options, "download", *names], cwd=folder.parent, capture_output=True, text=True)
        if done.returncode == 0:
            break
    else:
        skip(f"no {' '.join(names)}: apt-get download says {done.stderr.strip().splitlines()[-1:]}")
    shutil.rmtree(folder, ignore_errors=True)
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    for package in folder.parent.glob("*.deb"):
        run("dpkg-deb", "-x", package, unfinished)
        package.unlink()
    return unfinished


def image(kver):
    """The directory of the unpacked kernel package: the machine's own, or downloaded once."""
    folder = CACHE / kver / "image"
    if all((folder / path).exists() for path in (f"boot/vmlinuz-{kver}", f"lib/modules/{kver}/modules.builtin")):
        return folder
    if Path(f"/boot/vmlinuz-{kver}").exists() and Path(f"/lib/modules/{kver}/kernel").exists():
        return Path("/")
    # Newer series in an older Debian come without the signed package; since 7.2 the image is in three packages.
    tree = unpacked(folder, [([], [f"linux-image-{kver}"]), ([], [f"linux-image-{kver}-unsigned"]),
                             (newer_suites, [f"linux-binary-{kver}", f"linux-modules-{kver}", f"linux-base-{kver}"])])
    if not (tree / "boot").exists():
        (tree / "boot").mkdir()
        (tree / f"boot/vmlinuz-{kver}").symlink_to(f"../usr/lib/modules/{kver}/vmlinuz")
        (tree / "lib").symlink_to("usr/lib")
    return tree.rename(folder)


def headers(kver):
    """The directory of the kernel's headers: the machine's own, or downloaded once."""
    own = Path(f"/usr/src/linux-headers-{kver}")
    if own.exists():
        return own
    folder = CACHE / kver / "headers"
    if not folder.exists():
        common = kver.removesuffix("-amd64")
        names = [f"linux-headers-{kver}", f"linux-headers-{common}-common", f"linux-kbuild-{common}"]
        tree = unpacked(folder, [([], names), (newer_suites, names)])
        # The headers are meant to be in /usr/src.
        for makefile in tree.glob("usr/src/*/Makefile"):
            makefile.write_text(re.sub(r"(?<![\w/])/usr/", f"{folder}/usr/", makefile.read_text()))
        tree.rename(folder)
    return folder / f"usr/src/linux-headers-{kver}"


def build_path(kver):
    """What must come first in PATH when a module is built with these headers: nothing, or a directory
    with the programs of the newer suite."""
    kbuild = CACHE / kver / "headers/usr/lib" / f"linux-kbuild-{kver.removesuffix('-amd64')}"
    wanted = re.search(r"gcc-(\d+)$", (headers(kver) / ".kernelvariables").read_text(), re.M)
    if not wanted or shutil.which(f"gcc-{wanted[1]}") or not kbuild.exists():
        return []
    tree = CACHE / f"tools-{wanted[1]}"
    if not tree.exists():
        compiler = [f"gcc-{wanted[1]}-x86-64-linux-gnu", f"cpp-{wanted[1]}-x86-64-linux-gnu"]
        unpacked(tree, [(newer_suites, [*compiler, *TOOLS])]).rename(tree)
        (tree / "bin").mkdir()
        for name in ("as", "ld"):
            (tree / "bin" / name).symlink_to(shutil.which(name))
        gcc = f"x86_64-linux-gnu-gcc-{wanted[1]}"
        # `-wrapper` makes the compiler start its own programs by the loader as well, by their whole names.
        started(tree, tree / "bin" / gcc, tree / "usr/bin" / gcc,
                f"-B{tree}/bin/ -B{tree}/usr/libexec/gcc/x86_64-linux-gnu/{wanted[1]}/ -wrapper {','.join(loader(tree))}")
        started(tree, tree / "bin/pahole", tree / "usr/bin/pahole")
    for program in [*kbuild.glob("scripts/mod/*.real-lsb-64"), *kbuild.glob("tools/objtool/*.real-x86"), *kbuild.glob("tools/bpf/*/resolve_btfids")]:
        if program.read_bytes()[:4] == b"\x7fELF":
            started(tree, program, program.rename(f"{program}.elf"))
    return [tree / "bin"]


def programs(names):
    """The programs of Debian's packages of these names, which are not installed."""
    found = []
    for name in names:
        folder = CACHE / "programs" / name
        if not folder.exists():
            unpacked(folder, [([], [name])]).rename(folder)
        found += [path for path in folder.glob("usr/*bin/*") if not path.is_symlink()]
    return found


def loader(tree):
    libraries = tree / "usr/lib/x86_64-linux-gnu"
    return [f"{libraries}/ld-linux-x86-64.so.2", "--library-path", str(libraries)]


def started(tree, script, program, options=""):
    """Writes a script that starts a program by the loader of the tree."""
    script.write_text(f'#!/bin/sh\nexec {" ".join(loader(tree))} --argv0 "$0" {program} {options} "$@"\n')
    script.chmod(0o755)
