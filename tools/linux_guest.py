# SPDX-License-Identifier: Apache-2.0
"""Prepares the Linux guest of `make linux` in sim/out/linux.

Stock Debian packages by name: QEMU, kernel, rdma-core, perftest, libfabric, Open MPI. Debian leaves
the `efa` driver out of its kernel, so the unmodified driver of the same kernel source is built as a
module. mmdebstrap unpacks the packages, as root or in a user namespace, and the module is built
there.
Everything else needs no rights: QEMU runs with the loader and the libraries of the unpacked tree.
The guest boots from an initramfs; there is no disk image. A second, small archive holds the job of
a run and the folder that the user shares.
"""

import gzip
import hashlib
import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "sim/out/linux"
HOME = ROOT / "sim/linux"
SUITE = "forky"  # the first Debian whose QEMU is a vfio-user client (10.1 or later)
PACKAGES = (
    "qemu-system-x86 seabios linux-image-cloud-amd64 linux-headers-cloud-amd64 linux-source "
    "rdma-core ibverbs-utils ibverbs-providers python3-pyverbs perftest libfabric-bin "
    "openmpi-bin python3-mpi4py netpipe-openmpi iproute2 "
    "pciutils busybox kmod cpio gzip xz-utils dash bash mawk coreutils sed grep findutils tar "
    "diffutils make gcc"
).split()
PROGRAMS = (
    "busybox dash ip rdma lspci python3 ibv_devices ibv_devinfo ibv_ud_pingpong ib_send_lat "
    "ib_send_bw ib_write_lat ib_write_bw ib_read_lat ib_read_bw fi_info fi_pingpong "
    "mpirun.openmpi prterun prted NPopenmpi"
).split()
# With the modules that they need; efa.ko is loaded by the job.
MODULES = ("ib_uverbs", "virtio_net")
# Modules of rdma-core's tests, by the begin of their names; the others need test_addr before them.
TESTS = ("test_addr", "test_efa")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# Builds efa.ko in the unpacked tree. The maintainer scripts, which set up awk, do not run.
BUILD = r"""
set -e
ln -sf mawk "$1/usr/bin/awk"
kernel=$(basename "$1"/usr/lib/modules/*)
chroot "$1" dash -c "
set -e
mkdir -p /usr/src/efa
tar -C /usr/src/efa --strip-components=5 -xf /usr/src/linux-source-*.tar.xz --wildcards \
    'linux-source-*/drivers/infiniband/hw/efa'
make -s -C /usr/src/linux-headers-$kernel M=/usr/src/efa CONFIG_INFINIBAND_EFA=m modules
depmod $kernel
rm /usr/src/linux-source-*.tar.xz
"
# Needed by accelerators only, which Open MPI finds at run time.
cd "$1/usr/lib/x86_64-linux-gnu"
rm -f libLLVM* libamd* libz3*
"""


class GuestError(Exception):
    """The guest cannot be prepared here; the text says what is missing and what to do."""


@dataclass(frozen=True)
class Guest:
    """A prepared guest: the unpacked tree, the kernel and the initramfs."""

    tree: Path
    kernel: Path
    initramfs: Path

    def program(self, name: str) -> list[str]:
        """Returns the command of a program of the tree, with its loader and libraries."""
        return [str(self.tree / "usr/lib64/ld-linux-x86-64.so.2"), "--library-path",
                str(self.tree / LIBRARIES), str(self.tree / "usr/bin" / name)]  # fmt: skip


def prepare(say) -> Guest:
    """Returns the guest, prepared now unless an earlier run has done it; raises GuestError.

    `say` is called with a line before each long step.
    """
    guest = Guest(OUT / "tree", OUT / "vmlinuz", OUT / "initramfs.gz")
    OUT.mkdir(parents=True, exist_ok=True)
    unpacked = repr((SUITE, PACKAGES, BUILD)).encode()
    with _unless_done("tree", unpacked) as needed:
        if needed:
            _check_tools()
            say(f"unpacks {len(PACKAGES)} Debian packages and builds the efa driver (a minute or "
                "two)")
            _unpack(guest.tree)
    own = Path(__file__).read_bytes() + (HOME / "init").read_bytes()
    with _unless_done("initramfs", unpacked + own) as needed:
        if needed:
            say("packs the initramfs")
            _pack(guest)
    return guest


@contextmanager
def _unless_done(name: str, recipe: bytes) -> Iterator[bool]:
    """Yields True unless a part was made with this recipe; notes the recipe after success."""
    stamp, digest = OUT / f"{name}.stamp", hashlib.sha256(recipe).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        yield False
        return
    stamp.unlink(missing_ok=True)
    yield True
    stamp.write_text(digest)


def _check_tools() -> None:
    """Raises GuestError unless the programs of the preparation are installed."""
    missing = [name for name in ("mmdebstrap", "apt-get") if shutil.which(name) is None]
    if missing:
        raise GuestError(f"not installed: {', '.join(missing)}; the guest is made of Debian "
                         "packages: on Debian run `apt install mmdebstrap` as root")


def archive(guest: Guest, folder: Path) -> bytes:
    """Returns a folder as a compressed initramfs archive; archives may follow each other."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    made = subprocess.run([*guest.program("cpio"), "-o", "-H", "newc", "--quiet", "-R", "0:0"],
                          cwd=folder, input="\n".join([".", *names]).encode(),
                          capture_output=True, check=True)  # fmt: skip
    return gzip.compress(made.stdout, 1)


def _mirror() -> str:
    """Returns the address of the Debian mirror of this machine."""
    found = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)"],
                           capture_output=True, text=True, check=False).stdout  # fmt: skip
    for line in found.splitlines():
        address, _, component = line.partition(" ")
        if component == "main" and re.search(r"/debian/?$", address):
            return address
    raise GuestError("apt knows no Debian mirror here: add one to /etc/apt/sources.list, run "
                     "`apt-get update` as root")


def _unpack(tree: Path) -> None:
    """Unpacks the packages into `tree` and builds the module; raises GuestError."""
    shutil.rmtree(tree, ignore_errors=True)
    packed, log = OUT / "tree.tar", OUT / "mmdebstrap.log"
    command = [
        "mmdebstrap", "--variant=extract", f"--include={','.join(PACKAGES)}",
        # A mirror may lag behind the time in its signed index; the signature is still checked.
        "--aptopt=Acquire::Check-Valid-Until \"false\"",
        "--aptopt=APT::Install-Recommends \"false\"", f"--extract-hook={BUILD}", SUITE,
        str(packed), f"deb {_mirror()} {SUITE} main",
    ]  # fmt: skip
    with open(log, "w") as file:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file,
                              stderr=subprocess.STDOUT, check=False).returncode  # fmt: skip
    if code:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
        rights = "" if os.geteuid() == 0 else (
            "; without root, mmdebstrap needs user namespaces: `apt install uidmap` as root, and "
            "lines for this user in /etc/subuid and /etc/subgid")  # fmt: skip
        raise GuestError(f"mmdebstrap ended with code {code}{rights}\n{last}\nlog: {log}")
    tree.mkdir()
    subprocess.run(["tar", "-C", str(tree), "--no-same-owner", "--exclude=./dev/*", "-xf",
                    str(packed)], check=True)  # fmt: skip
    packed.unlink()


class _Stage:
    """The files of the initramfs, copied from the tree."""

    def __init__(self, guest: Guest, folder: Path) -> None:
        self.guest, self.folder = guest, folder
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("proc", "sys", "dev", "tmp", "run", "root", "etc", "job", "share", "usr/bin",
                     "usr/lib/modules", "usr/lib64"):  # fmt: skip
            (folder / name).mkdir(parents=True)
        for name, target in (("bin", "usr/bin"), ("sbin", "usr/bin"), ("lib", "usr/lib"),
                             ("lib64", "usr/lib64"), ("usr/sbin", "bin")):  # fmt: skip
            (folder / name).symlink_to(target)

    def file(self, name: str) -> None:
        """Copies a file of the tree; a link becomes the file that it names."""
        path = self.guest.tree / name
        while path.is_symlink():
            target = os.readlink(path)
            path = self.guest.tree / target.lstrip("/") if target[0] == "/" else \
                path.parent / target  # fmt: skip
        place = self.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)

    def folder_of(self, name: str, *left_out: str) -> None:
        """Copies a folder of the tree."""
        shutil.copytree(self.guest.tree / name, self.folder / name, symlinks=True,
                        ignore=shutil.ignore_patterns("__pycache__", *left_out))  # fmt: skip

    def libraries(self, names: list[str]) -> None:
        """Copies the shared libraries that programs and libraries of the tree need."""
        tree, needed = self.guest.tree, {"usr/lib64/ld-linux-x86-64.so.2"}
        for name in names:
            listed = subprocess.run([*self.guest.program("true")[:-1], "--list", str(tree / name)],
                                    capture_output=True, text=True, check=False).stdout
            found = re.findall(r"=> (\S+)", listed)
            needed |= {str(Path(one).relative_to(tree)) for one in found
                       if one.startswith(str(tree))}  # fmt: skip
        for name in sorted(needed):
            self.file(name)


def _pack(guest: Guest) -> None:
    """Writes kernel and initramfs from the tree."""
    tree, stage = guest.tree, _Stage(guest, OUT / "stage")
    (version,) = (path.name for path in (tree / "usr/lib/modules").iterdir())
    programs = [f"usr/bin/{name}" if os.path.lexists(tree / "usr/bin" / name)
                else f"usr/sbin/{name}" for name in PROGRAMS]  # fmt: skip
    plugins = [f"{LIBRARIES}/libibverbs/libefa-rdmav*.so", "usr/lib/python3*/lib-dynload/*.so",
               "usr/lib/python3/dist-packages/pyverbs/**/*.so",
               "usr/lib/python3/dist-packages/mpi4py/**/*.so"]  # fmt: skip
    loaded = [str(path.relative_to(tree)) for one in plugins for path in tree.glob(one)]
    for name in programs:
        stage.file(name)
    stage.libraries(programs + loaded)
    for python in tree.glob("usr/lib/python3.*"):
        stage.folder_of(str(python.relative_to(tree)), "test", "config-*", "idlelib", "ensurepip",
                        "tkinter", "lib2to3")  # fmt: skip
    for name in ("usr/lib/python3/dist-packages/pyverbs", "usr/lib/python3/dist-packages/mpi4py",
                 "etc/openmpi", "etc/prrte", "usr/share/prte", "usr/share/openmpi",
                 f"{LIBRARIES}/pmix2"):  # fmt: skip
        stage.folder_of(name)
    for path in tree.glob(f"{LIBRARIES}/libibverbs/libefa-rdmav*.so"):
        stage.file(str(path.relative_to(tree)))
    stage.file("etc/libibverbs.d/efa.driver")
    _busybox(stage)
    _modules(stage, version)
    _tests(stage)
    shutil.copy2(HOME / "init", stage.folder / "init")
    (stage.folder / "init").chmod(0o755)
    guest.kernel.unlink(missing_ok=True)
    shutil.copy2(tree / "usr/lib/modules" / version / "vmlinuz", guest.kernel)
    guest.initramfs.write_bytes(archive(guest, stage.folder))


def _busybox(stage: _Stage) -> None:
    """Adds the commands of busybox that have no program of their own."""
    listed = subprocess.run([*stage.guest.program("busybox"), "--list"], capture_output=True,
                            text=True, check=True).stdout  # fmt: skip
    for name in listed.split():
        place = stage.folder / "usr/bin" / name
        if not os.path.lexists(place):
            place.symlink_to("busybox")


def _modules(stage: _Stage, version: str) -> None:
    """Adds kernel modules, not compressed, and the order in which the guest loads them."""
    base = stage.guest.tree / "usr/lib/modules" / version
    needs = {}
    for line in (base / "modules.dep").read_text().splitlines():
        name, _, below = line.partition(":")
        needs[name] = below.split()
    order = []
    for wanted in MODULES:
        (name,) = (one for one in needs if Path(one).name.partition(".")[0] == wanted)
        order += [one for one in [*reversed(needs[name]), name] if one not in order]
    place = stage.folder / "usr/lib/modules"
    names = []
    for name in order:
        data = (base / name).read_bytes()
        if name.endswith(".xz"):
            name, data = name.removesuffix(".xz"), lzma.decompress(data)
        names.append(Path(name).name)
        (place / names[-1]).write_bytes(data)
    (place / "order").write_text("\n".join(names) + "\n")
    shutil.copy2(stage.guest.tree / "usr/src/efa/efa.ko", place / "efa.ko")


def _tests(stage: _Stage) -> None:
    """Adds rdma-core's own tests of EFA and their helpers."""
    place = stage.folder / "root/tests"
    place.mkdir()
    for path in (stage.guest.tree / "usr/share/doc/rdma-core/tests").iterdir():
        name = path.name.removesuffix(".gz")
        if name.startswith("test_") and not name.startswith(TESTS):
            continue
        data = path.read_bytes()
        (place / name).write_bytes(gzip.decompress(data) if path.suffix == ".gz" else data)
