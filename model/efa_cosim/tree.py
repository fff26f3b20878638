# SPDX-License-Identifier: Apache-2.0
"""Names the folder of the sources and the folder of the results.

In a checkout, ROOT is its folder: rtl/, spec/, builds in sim/out, results in reports/. An installed
package has no such folder. There, ROOT is a folder of links to the installed sources, below
EFA_COSIM_HOME (default ~/.cache/efa-cosim), and results go to reports/ in the current folder.
"""

import hashlib
import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
SOURCE = PACKAGE / "source"  # exists in an installed package only


def linked(home: Path) -> Path:
    """Returns the folder below `home` with links to the installed sources; raises OSError.

    Each installation has its own folder, so that two versions share no build.
    """
    root = home / hashlib.sha256(os.fsencode(PACKAGE)).hexdigest()[:12]
    parts = {"tb": PACKAGE.parent / "tb", "model/efa_cosim": PACKAGE}
    parts |= {name: SOURCE / name for name in
              ("rtl", "spec", "sim/regress", "sim/sweeps", "model/tests/data",
               "requirements.lock")}  # fmt: skip
    for name, target in parts.items():
        link = root / name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            part = link.with_name(f"{link.name}.{os.getpid()}")
            part.symlink_to(target)
            part.replace(link)
    return root


def _home() -> Path:
    return Path(os.environ.get("EFA_COSIM_HOME") or Path.home() / ".cache/efa-cosim").absolute()


INSTALLED = SOURCE.is_dir()
ROOT = linked(_home()) if INSTALLED else PACKAGE.parents[1]
REPORTS = Path.cwd() / "reports" if INSTALLED else ROOT / "reports"
