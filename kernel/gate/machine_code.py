"""Reads a relocatable object through binutils: functions, calls, frames, references, symbols.

This module only reads; `run` applies the rules.
"""

import re
import subprocess
from dataclasses import dataclass, field

HEADER = re.compile(r"^([0-9a-f]+) <(.+)>:$")
FUNCTION_SYMBOL = re.compile(r"^([0-9a-f]+) .{6}F (\S+)\s+[0-9a-f]+ (?:\.hidden )?(.+)$")
SECTION = re.compile(r"^Disassembly of section (.+):$")
RELOCATION = re.compile(r"^\s+([0-9a-f]+): (R_X86_64_\w+)\s+(.+?)(?:([+-])0x([0-9a-f]+))?$")
INSTRUCTION = re.compile(r"^\s+([0-9a-f]+):\s+(.*)$")
BRANCH_TARGET = re.compile(r"<([^>+]+)(\+0x[0-9a-f]+)?>$")
SUBTRACTION = re.compile(r"^sub[ql]?\s+\$0x([0-9a-f]+),%rsp")
# The assembler encodes "sub $128" as "add $-128", which is shorter.
NEGATIVE_ADDITION = re.compile(r"^add[ql]?\s+\$0x(f{8}[0-9a-f]{8}),%rsp")
# Frames of several pages are probed in a loop whose end is computed first.
PROBE_END = re.compile(r"^lea\s+-0x([0-9a-f]+)\(%rsp\),%r11")
# Every mnemonic that begins with f is an x87 instruction, also without a register operand.
FLOAT = re.compile(r"^f|%([xyz]mm\d|st\b|mm\d)")
PREFIXES = re.compile(r"^(?:(?:bnd|notrack|cs|ds|rex\.\w+|data16)\s+)+")


@dataclass
class Site:
    """An instruction that a finding may refer to."""
    section: str
    address: int
    text: str


@dataclass
class Function:
    name: str
    section: str
    address: int
    frame_bytes: int = 8                              # the return address
    calls: dict = field(default_factory=dict)         # symbol -> Site
    tail_calls: dict = field(default_factory=dict)    # symbol -> Site
    indirect: list = field(default_factory=list)      # Sites
    floats: list = field(default_factory=list)        # Sites


@dataclass
class Reference:
    """A relocation: `section` at `address` names `symbol`."""
    section: str
    address: int
    kind: str
    symbol: str
    addend: int = 0


def tool(*command, text=None):
    return subprocess.run(command, check=True, capture_output=True, text=True, input=text).stdout


class Object:
    def __init__(self, path):
        self.path = path
        self.undefined = set()
        self.writable = []                            # (name, nm type)
        self.aliases = {}                             # (section, address) -> names of functions
        self._read_symbols()
        self.references = self._read_relocations()
        # `ld -r` keeps symbols to which only discarded sections referred.
        self.undefined &= {reference.symbol for reference in self.references}
        self.functions = self._read_code()

    def _read_symbols(self):
        for line in tool("nm", str(self.path)).splitlines():
            kind, name = line[17:].split(" ", 1)
            if kind in "Uvw":
                self.undefined.add(name)
            elif kind in "DdBbCGgSs":
                self.writable.append((name, kind))
        for line in tool("objdump", "-tw", str(self.path)).splitlines():
            if match := FUNCTION_SYMBOL.match(line):
                self.aliases.setdefault((match[2], int(match[1], 16)), []).append(match[3])

    def _read_relocations(self):
        references, section = [], None
        for line in tool("readelf", "-rW", str(self.path)).splitlines():
            if line.startswith("Relocation section '"):
                section = line.split("'")[1].removeprefix(".rela").removeprefix(".rel")
            elif "R_X86_64_" in line and not section.startswith((".debug", ".eh_frame")):
                parts = line.split()
                addend = int(parts[6], 16) * (-1 if parts[5] == "-" else 1) if len(parts) > 6 else 0
                references.append(Reference(section, int(parts[0], 16), parts[2], parts[4] if len(parts) > 4 else "", addend))
        return references

    def _read_code(self):
        """Functions by symbol. A branch that leaves its function is a call or a tail call; its
        relocation may name a section, which is resolved to the function that begins there."""
        functions, by_place, pending = {}, {}, []
        function = section = instruction = None
        for line in tool("objdump", "-dr", "--no-show-raw-insn", str(self.path)).splitlines():
            if match := SECTION.match(line):
                section = match[1]
            elif match := HEADER.match(line):
                function = Function(match[2], section, int(match[1], 16))
                by_place[section, function.address] = function
                # The compiler merges equal functions under several names, of which the listing
                # shows one.
                functions.update(dict.fromkeys([function.name, *self.aliases.get((section, function.address), [])], function))
                instruction = None
            elif match := RELOCATION.match(line):
                if instruction is not None:
                    addend = int(match[5] or "0", 16) * (-1 if match[4] == "-" else 1)
                    pending.append((function, instruction, match[3], addend + 4))
                    instruction = None
            elif match := INSTRUCTION.match(line):
                if instruction is not None:
                    pending.append((function, instruction, None, 0))
                instruction = self._read_instruction(function, int(match[1], 16), match[2])
        if instruction is not None:
            pending.append((function, instruction, None, 0))
        for caller, (site, is_call), target, offset in pending:
            add_branch(caller, site, is_call, target, offset, by_place)
        return functions

    @staticmethod
    def _read_instruction(function, address, text):
        """Counts frame, floats and indirect branches; a direct branch is returned, because its
        relocation follows."""
        text = PREFIXES.sub("", text.split(" # ")[0].strip())
        operation = text.split(None, 1)[0] if text else ""
        site = Site(function.section, address, text)
        if FLOAT.search(text):
            function.floats.append(site)
        if operation.startswith("push"):
            function.frame_bytes += 8
        elif match := SUBTRACTION.match(text):
            function.frame_bytes += int(match[1], 16)
        elif match := NEGATIVE_ADDITION.match(text):
            function.frame_bytes += (1 << 64) - int(match[1], 16)
        elif match := PROBE_END.match(text):
            function.frame_bytes += int(match[1], 16)
        elif operation.startswith(("call", "j")):
            if "*" in text:
                function.indirect.append(site)
            else:
                return site, operation.startswith("call")
        return None

    def demangle(self, names):
        names = list(names)
        plain = tool("c++filt", text="\n".join(names)).splitlines() if names else []
        # Crate hashes only lengthen the lines.
        return {name: re.sub(r"\[[0-9a-f]{8,}\]", "", text) for name, text in zip(names, plain)}

    def source_of(self, section, address):
        """file:line of the innermost frame outside of the standard library, else of the innermost
        one; None if the object does not have it."""
        output = tool("addr2line", "-i", "-e", str(self.path), "-j", section, hex(address))
        places = [line.split(" (")[0] for line in output.splitlines() if not line.startswith("??")]
        own = [place for place in places if "/rustc/" not in place and "/rust/library/" not in place]
        return (own or places or [None])[0]


def add_branch(caller, site, is_call, target, offset, by_place):
    if target is None:
        match = BRANCH_TARGET.search(site.text)
        if not match or (match[1] == caller.name and (match[2] or not is_call)):
            return                                    # a loop or an if
        target = match[1]
    elif function := by_place.get((target, offset)):
        target = function.name
    elif target == caller.section:
        return
    (caller.calls if is_call else caller.tail_calls).setdefault(target, site)
