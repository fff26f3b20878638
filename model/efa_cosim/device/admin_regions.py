# SPDX-License-Identifier: Apache-2.0
"""Admin commands of memory regions: registration, page lists, deregistration.

A page list is inline in the command, one array in host memory, or chunks: blocks with the
addresses of list pages and a link to the next block. Chunk lengths are ignored, because some
drivers set wrong ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from efa_cosim.device.admin_rules import (
    Command,
    address_of,
    aligned,
    capable,
    commands,
    granted,
    valid,
    well_formed,
)
from efa_cosim.device.objects import Checked, Mr, Objects
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.device.device import Device

LIST_ALIGNMENT = ADDRESS_BYTES = 8
ADDRESS_SPACE = 1 << 64
POINTERS_PER_CHUNK = defs.EFA_PTRS_PER_CHUNK
LINK = defs.PblChunk.next
ADDRESSES_PER_PAGE = defs.EFA_CHUNK_PAYLOAD_SIZE // ADDRESS_BYTES

_Opcode = defs.AdminAqOpcode

# Opcode to the function that executes it.
COMMANDS: dict[int, Command] = {}
command = commands(COMMANDS)


@command(_Opcode.REG_MR)
def reg_mr(device: Device, cmd: defs.AdminRegMrCmd) -> defs.AdminRegMrResp:
    objects, flags = device.objects, cmd.aq_common
    physical = bool(cmd.mem_addr_phy_mode_en)
    well_formed(not flags.ctrl_data_indirect or (flags.ctrl_data and not physical))
    valid(objects.pds.get(cmd.pd))
    valid(cmd.mr_length)
    valid(cmd.iova + cmd.mr_length <= ADDRESS_SPACE)
    valid(not cmd.remote_read_enable or capable(device, "rdma_read"))
    valid(not cmd.remote_write_enable or capable(device, "rdma_write"))
    count = 0 if physical else _page_count(device, cmd)
    index, start = _space(device, count)
    # Last checks: a list in host memory is read only if an index and translations are free.
    pages = () if physical else _pages(device, cmd, count)
    size = 1 << cmd.phys_page_size_shift
    valid(all(aligned(page, size) for page in pages))
    region = _added(
        objects, index, start, count, pd=cmd.pd, iova=cmd.iova, length=cmd.mr_length,
        local_write=bool(cmd.local_write_enable),
        remote_write=bool(cmd.remote_write_enable), remote_read=bool(cmd.remote_read_enable),
        physical=physical,
        page_shift=cmd.phys_page_size_shift, pages=pages,
    )  # fmt: skip
    return defs.AdminRegMrResp(l_key=region.key, r_key=region.key)


@command(_Opcode.ALLOC_MR)
def alloc_mr(device: Device, cmd: defs.AdminAllocMrCmd) -> defs.AdminAllocMrResp:
    """Allocates a region without pages: its key covers nothing until a fast registration."""
    objects = device.objects
    valid(objects.pds.get(cmd.pd))
    valid(cmd.max_pages)
    index, start = _space(device, cmd.max_pages)
    region = _added(
        objects, index, start, cmd.max_pages, pd=cmd.pd, iova=0, length=0, local_write=False,
        remote_write=False, remote_read=False, physical=False,
    )  # fmt: skip
    return defs.AdminAllocMrResp(l_key=region.key, r_key=region.key)


@command(_Opcode.DEREG_MR)
def dereg_mr(device: Device, cmd: defs.AdminDeregMrCmd) -> None:
    objects = device.objects
    mr: Checked[Mr] = objects.mr_by_key(cmd.l_key)
    valid(mr)
    objects.mrs.remove(mr.index)
    if mr.translations:
        objects.translations.take_back(mr.first_translation)


def _space(device: Device, count: int) -> tuple[int, int]:
    """A free region index and the start of `count` free translations."""
    objects = device.objects
    index = granted(objects.mrs.free_number())
    return index, granted(objects.translations.find(count))


def _added(objects: Objects, index: int, start: int, count: int, **values: Any) -> Mr:
    key = objects.next_key(index)
    objects.count_key(key)
    objects.translations.give(start, count)
    region = Mr(index, key, first_translation=start, translations=count, **values)
    objects.mrs.add(index, region)
    return region


def _page_count(device: Device, cmd: defs.AdminRegMrCmd) -> int:
    """Number of pages of a region; refuses a list that is too short for them."""
    flags, buffer = cmd.aq_common, cmd.pbl.pbl
    valid(device.profile.page_size_cap >> cmd.phys_page_size_shift & 1)
    page_bytes = 1 << cmd.phys_page_size_shift
    inside = cmd.iova & (page_bytes - 1)
    count = (inside + cmd.mr_length + page_bytes - 1) >> cmd.phys_page_size_shift
    if flags.ctrl_data:
        valid(flags.ctrl_data_indirect or buffer.length >= ADDRESS_BYTES * count)
        valid(aligned(address_of(buffer.address), LIST_ALIGNMENT))
    else:
        valid(count <= len(cmd.pbl.inline_pbl_array))
    return count


def _pages(device: Device, cmd: defs.AdminRegMrCmd, count: int) -> tuple[int, ...]:
    """The page addresses, inline or from host memory; raises HostReadError if a read fails."""
    flags = cmd.aq_common
    if not flags.ctrl_data:
        return tuple(cmd.pbl.inline_pbl_array[:count])
    address = address_of(cmd.pbl.pbl.address)
    if not flags.ctrl_data_indirect:
        return _addresses(device, address, count)
    pages: list[int] = []
    for pointer in _list_pages(device, address, -(-count // ADDRESSES_PER_PAGE)):
        valid(aligned(pointer, LIST_ALIGNMENT))
        pages += _addresses(device, pointer, min(ADDRESSES_PER_PAGE, count - len(pages)))
    return tuple(pages)


def _list_pages(device: Device, chunk: int, count: int) -> Iterator[int]:
    """Addresses of the list pages; reads each chunk only when needed."""
    while count:
        valid(aligned(chunk, LIST_ALIGNMENT))
        consumed = min(count, POINTERS_PER_CHUNK)
        yield from _addresses(device, chunk, consumed)
        count -= consumed
        if count:
            link = defs.AdminCtrlBuffInfo.unpack(device.memory.read(chunk + LINK.offset, LINK.size))
            chunk = address_of(link.address)


def _addresses(device: Device, start: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}Q", device.memory.read(start, ADDRESS_BYTES * count))
