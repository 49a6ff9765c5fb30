"""An application that is loaded when it is first asked for: MCP takes as long to load as half of the daemon, and few ask for it."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Protocol

from starlette.types import ASGIApp, Receive, Scope, Send


class Living(Protocol):
    """An application that answers inside of its lifespan."""

    def lifespan(self) -> AbstractAsyncContextManager[None]: ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class AtFirst:
    """Stands for such an application. `module` is loaded beside the loop before `make` is called."""

    def __init__(self, module: str, make: Callable[[], Living]) -> None:
        self._module, self._make = module, make
        self._wanted, self._over = asyncio.Event(), asyncio.Event()
        self._made: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """As long as this lasts, it answers."""
        holding = asyncio.create_task(self._hold())
        try:
            yield
        finally:
            self._over.set()
            self._wanted.set()
            await holding

    async def _hold(self) -> None:
        """One task enters the lifespan of the application and leaves it again."""
        await self._wanted.wait()
        if self._over.is_set():
            return
        try:
            await asyncio.to_thread(import_module, self._module)
            # As for everything that was there when the daemon began: it stays, and need not be looked at again and again.
            gc.freeze()
            app = self._make()
            async with app.lifespan():
                self._made.set_result(app)
                await self._over.wait()
        except Exception as error:
            if self._made.done():
                raise
            # Nobody waits for good: whoever asks hears why there is none.
            self._made.set_exception(error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._wanted.set()
        app = await asyncio.shield(self._made)
        await app(scope, receive, send)
