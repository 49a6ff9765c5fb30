"""The routers of runs. A run's configuration leaves out what only the router reads, so the whole roster is found elsewhere."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hansard.app.settings import Settings
from hansard.domain.roster import Roster
from hansard.errors import UsageError
from hansard.orchestration.config import RunConfig

if TYPE_CHECKING:
    from hansard.orchestration.route import Route, Router

MOST_KEPT = 16


class Routers:
    """Routers by the digests of their rosters: those that runs were submitted with here, that of hansard.toml, the one that ships."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rosters: dict[str, Roster] = {}
        self._routers: dict[str, Router] = {}

    def keep(self, config: RunConfig) -> None:
        """Keep the roster with which a run is submitted."""
        digest = config.roster_digest or config.roster.digest
        if digest not in self._rosters and len(self._rosters) >= MOST_KEPT:
            del self._rosters[next(iter(self._rosters))]
        self._rosters[digest] = config.roster

    def of(self, config: RunConfig) -> "Callable[[str], Route]":
        """What routes for a run. Where nobody here has its whole roster, what was recorded of it has to do."""
        from hansard.orchestration.route import Router

        digest = config.roster_digest or config.roster.digest
        if digest not in self._routers:
            whole = self._whole(digest)
            if whole is None:
                return Router(config.roster).route
            if len(self._routers) >= MOST_KEPT:
                self._routers.clear()
            self._routers[digest] = Router(whole)
        return self._routers[digest].route

    def _whole(self, digest: str) -> Roster | None:
        if digest in self._rosters:
            return self._rosters[digest]
        try:
            known = self._settings.roster
        except UsageError:
            # The file is gone or broken now, and the run was submitted with another one anyway.
            known = None
        return next((each for each in (known, Roster.default()) if each and each.digest == digest), None)
