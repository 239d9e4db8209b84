"""A poster that calls whatever URL it is given. It guards nothing."""

import math
from typing import Final

import httpx

from a2a_scribe.push.delivery import Answer, DeliveryFailedError, Outgoing

MOST_READ: Final = 65_536
"""Bytes of an answer that are read."""


class PlainPoster:
    """Makes calls with httpx: no redirects, no proxies of the environment."""

    def __init__(self, timeout: float) -> None:
        """Gives up what takes longer than `timeout` seconds."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False, follow_redirects=False)

    async def post(self, outgoing: Outgoing) -> Answer:
        """Makes one POST; of a long answer the rest is not read."""
        try:
            async with self._client.stream(
                'POST', outgoing.url, content=outgoing.body, headers=dict(outgoing.headers)
            ) as response:
                await _drain(response)
                return Answer(response.status_code, _seconds(response.headers.get('retry-after', '')))
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise DeliveryFailedError(type(error).__name__, is_final=True) from error
        except (httpx.HTTPError, ValueError) as error:
            raise DeliveryFailedError(type(error).__name__) from error

    async def aclose(self) -> None:
        """Closes its connections."""
        await self._client.aclose()


async def _drain(response: httpx.Response) -> None:
    """Reads a short answer to its end, so that its connection can be used again."""
    size = 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > MOST_READ:
            return


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None
