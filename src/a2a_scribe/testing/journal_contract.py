"""What every journal keeps, stated once: an adapter's test subclasses `JournalContract` and says how to connect.

    class TestMyJournal(JournalContract):
        @pytest.fixture
        async def connect(self, tmp_path):
            yield lambda: MyJournal(tmp_path)

Each call of `connect` gives a journal on the same storage, as another process would have it; where nothing outlives the
process, it gives the same object again. A point that an adapter cannot promise is named in `cannot`, with the reason;
the tests that ask for it are then left out.
"""

from a2a_scribe.testing.contract.adapter import Connect, Point, needs
from a2a_scribe.testing.contract.appends import AppendsContract
from a2a_scribe.testing.contract.asked_cancels import AskedCancelsContract
from a2a_scribe.testing.contract.atomicity import AtomicityContract
from a2a_scribe.testing.contract.births import BirthsContract
from a2a_scribe.testing.contract.checks import check
from a2a_scribe.testing.contract.claims import ClaimsContract
from a2a_scribe.testing.contract.configs import ConfigsContract
from a2a_scribe.testing.contract.content import ContentContract
from a2a_scribe.testing.contract.copies import CopiesContract
from a2a_scribe.testing.contract.deaths import DeathsContract
from a2a_scribe.testing.contract.deliveries import DeliveriesContract, UndeliveredContract
from a2a_scribe.testing.contract.fence import FenceContract
from a2a_scribe.testing.contract.isolation import IsolationContract
from a2a_scribe.testing.contract.keys import KeysContract
from a2a_scribe.testing.contract.lists import ListsContract
from a2a_scribe.testing.contract.lost_answers import LostAnswersContract
from a2a_scribe.testing.contract.messages import MessagesContract
from a2a_scribe.testing.contract.opening import OpeningContract
from a2a_scribe.testing.contract.scenes import born
from a2a_scribe.testing.contract.snapshots import SnapshotsContract
from a2a_scribe.testing.contract.storing import StoringContract
from a2a_scribe.testing.contract.turn_ends import TurnEndsContract

__all__ = ['Connect', 'JournalContract', 'Point', 'born', 'check', 'needs']


class JournalContract(
    OpeningContract,
    BirthsContract,
    AppendsContract,
    SnapshotsContract,
    MessagesContract,
    ClaimsContract,
    AskedCancelsContract,
    TurnEndsContract,
    FenceContract,
    DeathsContract,
    LostAnswersContract,
    AtomicityContract,
    ConfigsContract,
    DeliveriesContract,
    UndeliveredContract,
    StoringContract,
    IsolationContract,
    CopiesContract,
    ContentContract,
    ListsContract,
    KeysContract,
):
    """The tests. Subclass, override `connect`, and name in `cannot` what is out of reach."""
