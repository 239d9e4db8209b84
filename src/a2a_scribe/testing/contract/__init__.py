"""The contract of journals, topic by topic; `a2a_scribe.testing.journal_contract` puts the parts together."""
