# SPDX-License-Identifier: Apache-2.0
"""Settings of a recorded device: interface version, profile, limits of its build."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.session.step import Step

Reg, Op = defs.Reg, defs.AdminAqOpcode
_QUEUE_ATTR = defs.AdminAqFeatureId.QUEUE_ATTR_1
_RESPONSE = defs.AdminMmioReqReadLessResp
# Of a session in which the host reads no attributes.
UNKNOWN = "recorded"
MOST_MINOR = 255
# Recorded by earlier releases; the profile and mtt_w say the same.
RETIRED = ("max_mr_pages",)


class SettingsError(Exception):
    """The settings do not describe a device of this project; the text says what is wrong."""


@dataclass(frozen=True)
class Settings:
    """What a session was recorded with.

    - `profile`: the attributes that the device reported, a name in spec/limits.yaml
    - `interface`: the minor interface version, 0 for that of the profile
    - `limits`: limits of the build by name, all or those that are known
    """

    profile: str = UNKNOWN
    interface: int = 0
    limits: dict[str, int] = field(default_factory=dict)

    def as_row(self) -> dict[str, Any]:
        """Returns the item of a `session` line; raises KeyError for an unknown profile."""
        minor = self.interface or defs.PROFILES[self.profile].version
        return {"interface": f"0.{minor}", "profile": self.profile, "limits": self.limits}

    @classmethod
    def from_row(cls, row: Any) -> Settings:
        """Returns the settings of a `session` line; raises SettingsError."""
        names = ("interface", "profile", "limits")
        if not isinstance(row, dict) or set(row) != set(names):
            raise SettingsError(f"the settings are no object with {', '.join(names)}")
        interface, profile, limits = (row[name] for name in names)
        if profile not in tuple(defs.PROFILES):
            raise SettingsError(f"profile {profile!r}; expected one of "
                                f"{', '.join(defs.PROFILES)}")
        major, _, minor = str(interface).partition(".")
        if major != "0" or not minor.isdecimal() or not 0 < int(minor) <= MOST_MINOR:
            raise SettingsError(f"interface {interface!r}; expected 0.1 to 0.{MOST_MINOR}")
        return cls(profile, _strap(int(minor), profile), _limits(limits))

    def differing_limits(self) -> dict[str, int]:
        """Returns {name: value} of the limits that differ from those of the default build."""
        return {name: value for name, value in self.limits.items()
                if getattr(defs.LIMITS, name) != value}


def _strap(minor: int, profile: str) -> int:
    """Returns the interface strap for a minor version: 0 if the profile has that version."""
    return 0 if minor == defs.PROFILES[profile].version else minor


def _limits(limits: Any) -> dict[str, int]:
    if not isinstance(limits, dict):
        raise SettingsError("limits are no object")
    for name, value in limits.items():
        known = getattr(defs.LIMITS, name, None)
        if type(known) is not int and name not in RETIRED:
            raise SettingsError(f"no limit {name!r} in spec/limits.yaml")
        if type(value) is not int or value < 0:
            raise SettingsError(f"limit {name} is {value!r}; expected a number")
    return {name: value for name, value in limits.items() if name not in RETIRED}


def derived(steps: Iterable[Step]) -> Settings:
    """Returns the settings of a session without a `session` line, from what the host read.

    The version register gives the interface, and the number of sub-CQs the profile. Raises
    SettingsError for a number that no profile has.
    """
    host = _Host()
    for step in steps:
        host.look(step)
    profile = UNKNOWN if host.sub_cqs is None else _profile(host.sub_cqs)
    strap = 0 if host.minor is None else _strap(host.minor, profile)
    return Settings(profile, strap)


def _profile(sub_cqs: int) -> str:
    for name in defs.PROFILES:
        if defs.PROFILES[name].sub_cqs_per_cq == sub_cqs:
            return name
    raise SettingsError(f"recorded with {sub_cqs} sub-CQs in a CQ; no profile has that number")


class _Host:
    """What the host has read so far: `minor`, the interface version, and `sub_cqs`."""

    def __init__(self) -> None:
        self.minor: int | None = None
        self.sub_cqs: int | None = None
        self._registers: dict[int, int] = {}
        self._commands: set[int] = set()  # ids of pending GET_FEATURE of the queue attributes

    def look(self, step: Step) -> None:
        if step.data is None or step.bar != defs.EFA_REG_BAR or len(step.data) != 4:
            return
        self._registers[step.offset] = step.value
        if step.offset == Reg.MMIO_REG_READ and self.minor is None:
            self._read(step)
        elif step.offset == Reg.AQ_PROD_DB and self.sub_cqs is None:
            self._commanded(step)
            if self._commands:
                self._answered(step)

    def _read(self, step: Step) -> None:
        image = self._image(step, Reg.MMIO_RESP_LO, Reg.MMIO_RESP_HI, _RESPONSE.SIZE)
        response = _RESPONSE.unpack(image)
        if response.reg_off == Reg.VERSION and response.reg_val:
            self.minor = defs.REG_BITS.VERSION.unpack(response.reg_val).MINOR_VERSION

    def _commanded(self, step: Step) -> None:
        size = defs.AdminAqEntry.SIZE
        for _, _, data in step.memory:
            if len(data) != size or defs.AdminAqCommonDesc.unpack(data).opcode != Op.GET_FEATURE:
                continue
            command = defs.AdminGetFeatureCmd.unpack(data)
            if command.feature_common.feature_id == _QUEUE_ATTR:
                self._commands.add(command.aq_common.command_id__command_id)

    def _answered(self, step: Step) -> None:
        size = defs.AdminAcqEntry.SIZE
        caps = defs.REG_BITS.ACQ_CAPS.unpack(self._registers.get(Reg.ACQ_CAPS, 0))
        ring = self._image(step, Reg.ACQ_BASE_LO, Reg.ACQ_BASE_HI, size * caps.ACQ_DEPTH)
        for at in range(0, len(ring), size):
            response = defs.AdminGetFeatureResp.unpack(ring[at : at + size])
            if response.acq_common_desc.command_id in self._commands:
                # An entry without a response is zero.
                self.sub_cqs = response.u.queue_attr_1.sub_cqs_per_cq or self.sub_cqs

    def _image(self, step: Step, low: int, high: int, size: int) -> bytes:
        """Returns what the device wrote to a ring of the host in a step, 0 elsewhere."""
        base = self._registers.get(high, 0) << 32 | self._registers.get(low, 0)
        image = bytearray(size)
        for _, address, data in step.writes:
            start, end = max(address, base), min(address + len(data), base + size)
            if start < end:
                image[start - base : end - base] = data[start - address : end - address]
        return bytes(image)
