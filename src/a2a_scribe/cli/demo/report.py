"""How the demonstration looks: lines and tables that fit 80 columns, in a terminal and in a pipe alike."""

from collections import Counter
from collections.abc import Sequence

from a2a.types.a2a_pb2 import Task
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from a2a_scribe.cli.demo.checks import Outcomes, Scene
from a2a_scribe.cli.demo.scenes import state_of, summary_of

ROWS = 3


def heading(console: Console, number: int, text: str) -> None:
    """Begins one of the parts."""
    console.print()
    console.print(Text(f'{number}. {text}', style='bold'))


def progress_line(console: Console) -> Progress:
    """A line that shows how many chunks have come."""
    return Progress(TextColumn('   {task.description}'), BarColumn(40), MofNCompleteColumn(), console=console)


def show_scene(console: Console, scene: Scene) -> None:
    """One line for what was seen, and one for each thing that was not as it should be."""
    _show_line(console, f'{scene.title}: {scene.summary}', is_right=not scene.wrong)
    for check in scene.wrong:
        console.print(Text(f'          {check.name}: expected {check.expected!r}, found {check.found!r}', style='red'))


def show_outcomes(console: Console, outcomes: Outcomes, runs: int) -> None:
    """The ways in which the failing agent's calls ended, and how often."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ('runs', 'the client got', 'stored', 'metadata kept', ''):
        table.add_column(column, justify='right' if column == 'runs' else 'left')
    for outcome, count in outcomes.counts.most_common():
        kept = 'yes' if outcome.metadata_kept else 'no'
        table.add_row(str(count), outcome.client, outcome.stored, kept, _verdict(outcome == outcomes.right))
    console.print(table)
    right = outcomes.counts[outcomes.right]
    _show_line(console, f'{right} of {runs} ended the only right way', is_right=outcomes.are_right(runs))


def show_tasks(console: Console, tasks: Sequence[Task]) -> None:
    """The stored tasks, newest first; of many that read the same only a few."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ('task', 'state', 'the user said', 'artifacts'):
        table.add_column(column, no_wrap=True)
    shown: Counter[tuple[str, str]] = Counter()
    for task in tasks:
        kind = (state_of(task), summary_of(task))
        shown[kind] += 1
        if shown[kind] <= ROWS:
            table.add_row(task.id[:8], *kind, str(len(task.artifacts)))
    console.print(table)
    for (state, summary), count in shown.items():
        if count > ROWS:
            console.print(Text(f'   and {count - ROWS} more {state}: {summary}', style='dim'))


def show_end(console: Console, *, is_right: bool, seconds: float) -> None:
    """The last line."""
    end = 'every outcome is right' if is_right else 'an outcome is WRONG'
    console.print()
    console.print(Text(f'{end} ({seconds:.1f} s)', style='bold green' if is_right else 'bold red'))


def _show_line(console: Console, text: str, *, is_right: bool) -> None:
    console.print(Text('   ').append_text(_verdict(is_right)).append(f'  {text}'))


def _verdict(is_right: bool) -> Text:
    return Text('ok', style='green') if is_right else Text('WRONG', style='bold red')
