"""For programs that receive webhooks: who sent a delivery, whether it is new, and whether it was changed on its way."""
