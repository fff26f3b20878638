# SPDX-License-Identifier: Apache-2.0
"""Plays a recorded session on a backend and compares the device's output with the recording."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from efa_cosim.backends import open_backend
from efa_cosim.boundary.backend import Backend
from efa_cosim.session.fabric_player import FabricPlayer
from efa_cosim.session.order import OrderFault
from efa_cosim.session.recording import Session, SessionError, read_session
from efa_cosim.session.result import Difference, OrderError, PlayError, PlayResult
from efa_cosim.session.step import Step
from efa_cosim.session.translation import Unplayable

if TYPE_CHECKING:
    from types import TracebackType

    from efa_cosim.session.outputs import Outputs


def open_player(name: str, session: Session, **options: Any) -> Backend | Nodes:
    """Opens a device with the settings of a session, for `play`; returns the Backend, for a session
    of several devices the list of their Backends.

    - `name`: the backend, as for `open_backend`
    - `session`: a `Session` of `read_session`
    - `options`: further options of `open_backend`; they have priority over the settings

    The model gets the limits of the session, too; a simulator has those of its build.

    Raises BackendUnavailable as open_backend does.
    """
    settings = session.settings
    assert settings is not None  # of read_session
    chosen: dict[str, Any] = {"profile": settings.profile, "interface": settings.interface}
    if name == "model" and settings.differing_limits():
        chosen["limits"] = settings.differing_limits()
    opened = open_backend(name, **{**chosen, "nodes": session.nodes, "record": True, **options})
    return Nodes(opened) if isinstance(opened, list) else opened


class Nodes(list[Backend]):
    """The Backends of several devices on one fabric, for `with`."""

    def __enter__(self) -> Nodes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self:
            each.__exit__(kind, error, trace)


def play(
    path: str | Path,
    backend: Backend | list[Backend],
    control_only: bool = False,
    progress: Callable[[int, int], object] | None = None,
    outputs: Outputs | None = None,
    session: Session | None = None,
    steps: Iterable[Step] | None = None,
) -> PlayResult:
    """Plays a recorded session and compares the output of the device; returns a `PlayResult`.

    - `path`: the session (.jsonl.gz)
    - `backend`: the result of `open_player`, or a device opened with `record=True` and the settings
      of the session; for several devices a list
    - `control_only`: play the register BAR only
    - `progress`: called as progress(done, total) at intervals
    - `outputs`: receives all output of the device for a comparison with another device
      (`efa_cosim.session.outputs`)
    - `session`: the `Session` of the file if already read
    - `steps`: the ordered steps as they come, in place of a file; then there is no progress

    Raises SessionError for a file that is no session, PlayError at the first difference.
    """
    path, ordered = Path(path), not control_only
    if steps is None:
        session = read_session(path) if session is None else session
        steps, ordered = session.steps, ordered and session.ordered
    backends = backend if isinstance(backend, list) else [backend]
    if outputs is not None and len(backends) > 1:
        raise SessionError(f"{path}: a session of {len(backends)} devices; only the outputs of one "
                           "device can be compared: use `efa-cosim play`")
    if session is not None and session.nodes > len(backends):
        raise SessionError(f"{path}: a session of {session.nodes} devices; expected "
                           f"{len(backends)}")
    result = PlayResult(path.name, backends[0].name, control_only)
    fabric = FabricPlayer(backends, result, outputs, ordered)
    started, start_cycles = time.monotonic(), backends[0].cycles
    try:
        fabric.play(steps, progress)
        if outputs is not None:
            outputs.finish(backends[0].memory)
    except Difference as error:
        raise PlayError(path, error.line, str(error)) from None
    except OrderFault as error:
        raise OrderError(path, error.line, str(error)) from None
    except Unplayable as error:
        raise PlayError(path, fabric.line, f"cannot be played: {error}") from None
    result.cycles = backends[0].cycles - start_cycles
    result.seconds = time.monotonic() - started
    return result
