# SPDX-License-Identifier: Apache-2.0
"""The snapshot of the database that each worker keeps in memory, and how it is kept up to date.

Candidates and lists of providers are searched in the snapshot. Every answer has to reflect every transaction
that was acknowledged before the request arrived, whichever worker, host or program committed it. The snapshot
is stale as soon as one was committed that it does not show, so the database is asked at each request. There
are three levels; each is tried only if the one before found a difference.

1. *Was anything committed?* (`detector`) Compares the change marker of the kept connection: a
   fraction of a millisecond at any size. SQLite: ``PRAGMA data_version``. PostgreSQL:
   ``pg_current_snapshot``. MariaDB: the highest transaction id of InnoDB, trusted only if no other connection
   executes a statement at that moment; under load, on a Galera cluster and on a replica the next level
   decides. MySQL has no marker.
2. *Was anything committed that the snapshot shows?* (`fingerprint`) Compares sums of hashes over providers,
   memberships, traits, classes, consumers and revisions, read by one statement: 10 ms at 10,000 providers on
   MariaDB, and half a millisecond more for each thousand consumers. The same on all databases.
3. *What changed?* (`load`, `changes`, `rows`) Finds the providers whose rows changed and reads their
   contents: a few milliseconds more for the claims of a busy moment. Everything is read again if it is
   another database, such as one restored from a backup, or if a class was renamed.

The fingerprint and what is read with it belong to one transaction, which begins after the marker is read.

This server also counts its own changes per provider (`db.revision`, written in the transaction that makes
them), so that its claims need not be told apart from the changes of other programs by reading everything.
Changes by other programs are found by what every placement does: it increments generations, and deletes or
creates consumers. Without the table of revisions, changes by this server are found in the same way.

`current` holds the snapshot for the threads of a worker.

Alternatives that were rejected: triggers, which need privileges that placement's account rarely has and which
operators do not expect; a log of changes, whose ids are assigned before the commit; one counter for all
changes, for which all writers would queue; and comparing times of changes, as clocks differ.
"""
