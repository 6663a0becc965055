"""What Alembic runs: the migrations, in the connection and transaction that it is given.

alembic's own command line is not used; `app/stores/ledger_database.py` upgrades at start-up.
"""

from __future__ import annotations

from alembic import context

from app.stores.ledger_schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
