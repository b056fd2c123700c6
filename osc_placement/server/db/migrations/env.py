# SPDX-License-Identifier: Apache-2.0
"""The alembic environment: runs revisions on the connection and in the transaction that `upgrade` gives."""

from alembic import context

_history = context.config.attributes["history"]
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=_history.metadata,
    version_table=_history.versions.name,
)
with context.begin_transaction():
    context.run_migrations()
