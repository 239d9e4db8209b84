"""Addresses of host names, asked for in threads of our own.

A name server that a receiver runs may take its time: threads that wait for it are bounded, take none away from anybody
else, and do not keep a program from ending.
"""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a host name, the best first. Raises: OSError: It has none, or nobody knows."""

LOOKUPS = 32
"""Lookups that run at once; others wait, and go on waiting while their caller has given up."""


class SystemResolver:
    """Asks the operating system; of one event loop."""

    def __init__(self) -> None:
        """Has asked nothing yet."""
        self._room = asyncio.Semaphore(LOOKUPS)

    async def __call__(self, host: str) -> Sequence[str]:
        """Returns the addresses of a host name. Raises: OSError."""
        loop = asyncio.get_running_loop()
        await self._room.acquire()
        found: asyncio.Future[Sequence[str]] = loop.create_future()

        def hand_over(outcome: Sequence[str] | OSError) -> None:
            self._room.release()
            if found.done():
                return
            if isinstance(outcome, OSError):
                found.set_exception(outcome)
            else:
                found.set_result(outcome)

        def look_up() -> None:
            outcome = _look_up(host)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(hand_over, outcome)

        try:
            threading.Thread(target=look_up, name='a2a-scribe lookup', daemon=True).start()
        except RuntimeError:
            self._room.release()
            raise OSError('no thread is left for a lookup') from None
        return await found


def _look_up(host: str) -> Sequence[str] | OSError:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    except UnicodeError:
        return OSError('no host name')
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
