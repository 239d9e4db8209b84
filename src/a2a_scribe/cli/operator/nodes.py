"""`a2a-scribe nodes`: who writes, or wrote."""

from dataclasses import replace

from a2a_scribe.cli.operator.databases import DONE, Place, opened
from a2a_scribe.cli.operator.output import print_json, print_table, time_text
from a2a_scribe.cluster.locks import NodeLocks


async def list_nodes(place: Place, *, as_json: bool) -> int:
    """Shows the nodes, oldest first: one whose lock file says that its process has ended is gone."""
    async with opened(place) as site:
        nodes = await site.inspector.nodes()
        locks = NodeLocks(site.journal.lock_directory)
    nodes = [
        replace(node, state='gone') if node.state == 'alive' and locks.is_free(node.node_id) else node for node in nodes
    ]
    if as_json:
        for node in nodes:
            print_json(
                {
                    'id': node.node_id,
                    'state': node.state,
                    'agent': node.agent,
                    'name': node.name,
                    'started_at': time_text(node.started_at),
                    'commit_no': node.commit_no,
                    'tasks': node.tasks,
                }
            )
        return DONE
    print_table(
        ('node', 'state', 'agent', 'name', 'started', 'commit', 'tasks'),
        [
            (node.node_id, node.state, node.agent, node.name, time_text(node.started_at), node.commit_no, node.tasks)
            for node in nodes
        ],
    )
    return DONE
