"""The order of the checks, and their verdict."""

import os
from collections.abc import AsyncIterator

from rich.text import Text

from a2a_scribe.cli.operator.databases import DONE, FOUND, Place
from a2a_scribe.cli.operator.doctor.cards import check_card
from a2a_scribe.cli.operator.doctor.databases import check_database
from a2a_scribe.cli.operator.doctor.findings import Finding
from a2a_scribe.cli.operator.doctor.process import check_process
from a2a_scribe.cli.operator.output import console, print_json, printable
from a2a_scribe.clock import SystemClock

STYLES = {'ok': 'green', 'warn': 'yellow', 'fail': 'bold red'}


async def examine(place: Place, url: str | None, *, as_json: bool) -> int:
    """Shows each finding; returns the exit code, which is 1 if something does not work."""
    failed = False
    async for finding in _findings(place, url):
        failed = failed or finding.level == 'fail'
        _show(finding, as_json=as_json)
    return FOUND if failed else DONE


async def _findings(place: Place, url: str | None) -> AsyncIterator[Finding]:
    for finding in check_process(os.environ):
        yield finding
    async for found in check_database(place, SystemClock()):
        yield found
    if url is not None:
        async for found in check_card(url):
            yield found


def _show(finding: Finding, *, as_json: bool) -> None:
    if as_json:
        values = {'check': finding.check, 'result': finding.level, 'what': finding.what}
        print_json(values | {'advice': finding.advice or None})
        return
    line = Text(f'{finding.level:<4}', style=STYLES[finding.level])
    console().print(
        line.append(printable(f'  {finding.check:<16}  {finding.what}'), style='not bold default'), soft_wrap=True
    )
    if finding.advice:
        console().print(Text(printable(f'{"":<24}{finding.advice}'), style='dim'), soft_wrap=True)
