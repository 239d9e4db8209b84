"""The lease counts only what its observer has lived through and could have written in."""

from a2a_scribe.cluster.lease import Lease
from a2a_scribe.journal.port import LivingNode
from a2a_scribe.protocol.types import NodeId


def node(number: int, name: str = 'node') -> LivingNode:
    return LivingNode(NodeId(name), number, owns=True)


def look(lease: Lease, now: float, *nodes: LivingNode, undisturbed: bool = True) -> list[str]:
    return [each.node_id for each in lease.look(nodes, now, undisturbed=undisturbed)]


def test_a_node_that_does_not_move_is_dead_after_the_lease() -> None:
    lease = Lease(6.0, 4.0)
    assert [look(lease, float(second), node(7)) for second in (0, 2, 4)] == [[], [], []]
    assert look(lease, 6.0, node(7)) == ['node']


def test_a_node_that_moves_lives() -> None:
    lease = Lease(6.0, 4.0)
    assert not any(look(lease, second * 2.0, node(second // 2)) for second in range(20))


def test_each_node_has_a_lease_of_its_own() -> None:
    lease = Lease(6.0, 4.0)
    for second in (0, 2, 4):
        assert not look(lease, float(second), node(1, 'dead'), node(second, 'alive'))
    assert look(lease, 6.0, node(1, 'dead'), node(6, 'alive'), node(1, 'new')) == ['dead']


def test_a_disturbed_observer_starts_anew() -> None:
    lease = Lease(6.0, 4.0)
    for second in (0, 2, 4):
        look(lease, float(second), node(1))
    assert not look(lease, 6.0, node(1), undisturbed=False)
    assert not look(lease, 8.0, node(1))
    assert not look(lease, 10.0, node(1))
    assert look(lease, 12.0, node(1)) == ['node']


def test_an_observer_that_was_paused_starts_anew() -> None:
    lease = Lease(6.0, 4.0)
    look(lease, 0.0, node(1))
    assert not look(lease, 100.0, node(1))
    assert look(lease, 102.0, node(1)) == []


def test_a_node_that_was_out_of_sight_starts_anew() -> None:
    lease = Lease(6.0, 4.0)
    look(lease, 0.0, node(1))
    look(lease, 3.0)
    assert not look(lease, 6.0, node(1))
