"""The journal on SQL databases: SQLite through aiosqlite, PostgreSQL through asyncpg."""
