"""The way to the API server as the files describe it at this moment.

A CA that was replaced, an edited kubeconfig and another client certificate count from the next request on, which then
goes over a connection of its own. While a file is wrong or being written, the access of before goes on.
Called by `headrace_operator.kube.api`.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.errors import Misconfigured
from headrace.io.process import log, tls
from headrace.io.process.tls import Stamp
from headrace_operator.kube.access import KubeAccess

_log = log.get("operator")


class LiveAccess:
    """Looks at the files at each request, and reads them when one has changed."""

    def __init__(self, find: Callable[[], KubeAccess]) -> None:
        """Args:
        find: reads all files; raises Misconfigured.

        Raises:
            Misconfigured: from `find`.
        """
        self._find = find
        self._access, self._stamps = self._found()
        self._problem = ""

    def now(self) -> KubeAccess:
        """The access of this moment."""
        stamps = _stamped(self._access)
        if stamps != self._stamps:
            self._stamps = stamps
            self._read_again()
        return self._access

    def _read_again(self) -> None:
        try:
            self._access, self._stamps = self._found()
        except Misconfigured as error:
            if self._problem != str(error):
                self._problem = str(error)
                words = "what tells of the API server can't be used, what counted before still does"
                _log.warning(words, error=str(error))
            return
        self._problem = ""
        _log.info("what tells of the API server has changed, and is obeyed", api_server=self._access.url)

    def _found(self) -> tuple[KubeAccess, tuple[Stamp, ...]]:
        """The access, with the files' stamps from before they were read, so that a change meanwhile is seen later."""
        known = self._find()
        while True:
            stamps, found = _stamped(known), self._find()
            # Only the files themselves name all the files to look at.
            if (found.files, found.trusts_system) == (known.files, known.trusts_system):
                return found, stamps
            known = found


def _stamped(access: KubeAccess) -> tuple[Stamp, ...]:
    """The stamps of all files; a missing file has one, too, since it may appear."""
    return (*map(tls.stamp, access.files), *(tls.system_stamps() if access.trusts_system else ()))
