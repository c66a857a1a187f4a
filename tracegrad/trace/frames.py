"""Where in the user's source an operation stands: the chain of the user's frames.

Finding it must cost a few microseconds, since every operation asks.  So positions are
listed once per code object (`co_positions` per operation costs milliseconds in long
functions), and the chain of the callers is kept as long as the caller does not move.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from types import CodeType, FrameType
from typing import Any

from tracegrad.ir.location import Chain, Location
from tracegrad.trace.source_names import Hint, Names, names_of


def _library_folders() -> tuple[str, ...]:
    """Folders whose code is not the user's: tracegrad and the standard library."""
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = {own, os.path.join(os.path.dirname(own), "codegen")}
    for key in ("stdlib", "platstdlib"):
        folders.add(os.path.abspath(sysconfig.get_path(key)))
    return tuple(sorted(f + os.sep for f in folders))


_LIBRARIES = _library_folders()
_PACKAGES = tuple(
    f"{os.sep}{place}-packages{os.sep}{name}{os.sep}"
    for place in ("site", "dist")
    for name in ("numpy", "scipy", "jax", "jaxlib", "torch", "tracegrad", "optree")
)


def is_users(filename: str) -> bool:
    """Whether a file is the user's, third-party packages included."""
    if filename.startswith("<"):
        # A notebook cell or a string given to exec is; frozen modules, the dispatchers
        # of NumPy, dataclass methods and generated gradients are not.
        return not filename.startswith(("<frozen", "<__array", "<tracegrad"))
    for name in _PACKAGES:
        if name in filename:
            return False
    if of_package(filename):
        return True
    return not filename.startswith(_LIBRARIES)


def of_package(filename: str) -> bool:
    """Whether a file is of a third party's package."""
    return f"{os.sep}site-packages{os.sep}" in filename


class Site:
    """One position in one code object.

    Attributes:
        location: for errors, comments, and to tell loops.
        hint: name that the expression is assigned to.
        loop: name of the loop variable, if the position is what a `for` runs over.
        parts: names that something is unpacked to, if the position is theirs.
        returned: whether the expression is what the function returns.
    """

    __slots__ = ("hint", "location", "loop", "parts", "returned")

    def __init__(self, location: Location, names: Names) -> None:
        self.location = location
        where = (
            location.line,
            location.column,
            location.end_line,
            location.end_column,
        )
        self.hint: Hint | None = names.assigned.get(where)
        self.loop: str | None = names.loops.get(where)
        self.parts = names.parts.get(where, ())
        self.returned = where in names.returned


class Code:
    """What is known of a code object; kept by `id`, for hashing one costs much more."""

    __slots__ = ("code", "names", "places", "positions", "sites", "users")

    def __init__(self, code: CodeType) -> None:
        self.code = code  # keeps the id from being used again
        self.users = is_users(code.co_filename)
        self.sites: dict[int, Site] = {}
        self.places: dict[tuple, Site] = {}
        self.positions: list[tuple] | None = None
        self.names: Names | None = None

    def site(self, frame: FrameType) -> Site:
        """The site of the instruction that `frame` is at, entered in `sites`.

        The number of an instruction is no identity, since the interpreter moves it
        when it specialises one; the source position is.
        """
        code = self.code
        if self.positions is None or self.names is None:
            self.positions = list(code.co_positions())
            self.names = names_of(code.co_filename, frame.f_globals)
        at = frame.f_lasti
        line, end_line, column, end_column = self.positions[at // 2]
        place = (line, column, end_line, end_column)
        found = self.places.get(place)
        if found is None:
            location = Location(
                code.co_filename,
                frame.f_lineno if line is None else line,
                -1 if column is None else column,
                -1 if end_line is None else end_line,
                -1 if end_column is None else end_column,
                code.co_name,
            )
            found = self.places[place] = Site(location, self.names)
        self.sites[at] = found
        return found


_CODES: dict[int, Code] = {}
_MAX_CODES = 20_000
_LOCK = threading.Lock()


def code_of(code: CodeType) -> Code:
    """The record of a code object."""
    found = _CODES.get(id(code))
    if found is None:
        with _LOCK:
            if len(_CODES) > _MAX_CODES:
                _CODES.clear()
            found = _CODES.setdefault(id(code), Code(code))
    return found


class Locator:
    """Finds the chain of user frames between an operation and the start of a trace.

    Attributes:
        base: frame at which the walk ends.
        sites: the sites of the latest chain, outermost first.
        seen: code objects of the user met so far, with a frame's globals.
    """

    __slots__ = (
        "_callers_known",
        "_chains",
        "_outer",
        "_parent",
        "base",
        "met",
        "seen",
        "sites",
    )

    def __init__(self, base: FrameType, met: Any) -> None:
        self.base = base
        self.met = met
        self.sites: tuple[Site, ...] = ()
        self.seen: dict[int, tuple[CodeType, dict[str, Any]]] = {}
        # The frame that called the user's innermost frame, where it stood, and the
        # chain up to it.
        self._parent: tuple = (None, 0, None)
        self._outer: tuple[Chain, tuple[Site, ...]] = ((), ())
        self._chains: dict[tuple[int, int], tuple] = {}
        self._callers_known: dict[tuple[int, ...], tuple] = {}

    def find(self) -> Chain:
        """The chain of the operation that is being recorded."""
        frame: FrameType | None = sys._getframe(1)
        base = self.base
        while frame is not None and frame is not base:
            code = _CODES.get(id(frame.f_code)) or code_of(frame.f_code)
            if code.users:
                break
            frame = frame.f_back
        else:
            return ()
        if id(code.code) not in self.seen:
            self._meet(frame)
        site = code.sites.get(frame.f_lasti) or code.site(frame)
        outer = self._callers(frame.f_back)
        # Each chain is one object, so that a loop over a deep stack stays cheap.  The
        # entry keeps the outer chain alive, so its id stands for it.
        key = (id(outer), id(site))
        found = self._chains.get(key)
        if found is None:
            chain, sites = outer
            found = ((*chain, site.location), (*sites, site), outer)
            self._chains[key] = found
        self.sites = found[1]
        return found[0]

    def _callers(self, frame: FrameType | None) -> tuple[Chain, tuple[Site, ...]]:
        if frame is None or frame is self.base:
            return _NOBODY
        parent, at, beyond = self._parent
        if frame is parent and frame.f_lasti == at and frame.f_back is beyond:
            return self._outer
        sites: list[Site] = []
        walk: FrameType | None = frame
        while walk is not None and walk is not self.base:
            code = code_of(walk.f_code)
            if code.users:
                if id(code.code) not in self.seen:
                    self._meet(walk)
                sites.append(code.sites.get(walk.f_lasti) or code.site(walk))
            walk = walk.f_back
        sites.reverse()
        key = tuple(map(id, sites))
        found = self._callers_known.get(key)
        if found is None:
            found = (tuple([s.location for s in sites]), tuple(sites))
            self._callers_known[key] = found
        self._parent = (frame, frame.f_lasti, frame.f_back)
        self._outer = found
        return found

    def _meet(self, frame: FrameType) -> None:
        self.seen[id(frame.f_code)] = (frame.f_code, frame.f_globals)
        self.met(frame)

    def hint(self, returned: bool = False) -> Hint | None:
        """The name that the user's source gives to the latest operation's result.

        What a helper returns takes the name that its caller assigns the call to.

        Args:
            returned: whether the result is returned, which its place does not tell.
        """
        for site in reversed(self.sites):
            if site.hint is not None:
                return site.hint
            if not (site.returned or returned):
                return None
            returned = False
        return None

    def close(self) -> None:
        """Let go of the user's frames."""
        self._parent = (None, 0, None)
        self.base = None  # type: ignore[assignment]


_NOBODY: tuple[Chain, tuple[Site, ...]] = ((), ())


def calling_line() -> Location | None:
    """The innermost line of the user's, where no trace is there to ask."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    code = frame.f_code
    return Location(code.co_filename, frame.f_lineno, function=code.co_name)
