"""Why a receiver does not take a delivery. No text names a secret, a signature or a part of a body."""

from typing import ClassVar

from a2a_scribe.errors import CallerError


class DeliveryRefusedError(CallerError):
    """The delivery is not taken."""

    status: ClassVar[int] = 401
    """The HTTP status that tells the sender. A delivery that should come again has 409 or 503."""


class UnsignedDeliveryError(DeliveryRefusedError):
    """The delivery has no signature of this kind, or one that cannot be read."""


class WrongSignatureError(DeliveryRefusedError):
    """The signature does not fit: it was made with another key, or the delivery was changed on its way."""


class UnknownKeyError(DeliveryRefusedError):
    """The delivery is signed with a key that its sender does not publish."""


class MisdirectedDeliveryError(DeliveryRefusedError):
    """The delivery is signed for another receiver, or by another sender."""


class StaleDeliveryError(DeliveryRefusedError):
    """The delivery was signed too long ago, or in the future: it is a replay, or a clock is wrong."""


class ReplayedDeliveryError(DeliveryRefusedError):
    """This very attempt was taken before."""

    status = 409


class DeliveryInHandError(DeliveryRefusedError):
    """An earlier attempt at the same event is still being handled."""

    status = 503


class KeysUnavailableError(DeliveryRefusedError):
    """The sender's keys cannot be fetched now, so nobody can say whether the signature is right."""

    status = 503
