# SPDX-License-Identifier: Apache-2.0
"""The snapshot of the database that each worker keeps in memory, and how it is kept up to date.

Candidates and lists of providers are searched in the snapshot. Every answer has to reflect every transaction
that a server of this project acknowledged before the request arrived, on whichever host, so a request that is
answered from the snapshot first asks the database whether it is stale (`Current.get` in ``current.py``).
`refresh` in ``load.py`` decides what is stale and reads it again, in one transaction.

What makes a snapshot stale
---------------------------

Each cause, how it is noticed, by which function, and what is read again:

1. *One of our servers committed a change.* It wrote a line about the change into its slot, a row that only
   its process writes (`db.writers`), so that the mark, a sum over all slots, differs: `read_mark` in
   ``vector.py``. `find_changes` beside it reads the lines. `_follow` in ``load.py`` reads the rows and the
   usage of the providers that they name, and the inventories, traits and memberships of those of which more
   than the usage changed; if a trait or a class came, went or was renamed, the names of all, and the
   providers with inventory of that class.
2. *Our servers changed more than their slots describe*: more transactions of a slot since the last check than
   it has lines (`writers.LINES`, `writers.CHARACTERS`), more providers in a transaction than `writers.MANY`,
   or more in all than `changes.MANY`; or a line cannot be parsed. `find_changes` returns None or
   `Changes.everything`, or `refresh` counts too many. `_compare` in ``load.py`` does as in 3, and reads the
   providers that the lines name, whatever the sums say, unless the lines of some transactions are missing.
3. *Another program wrote.* That does not change the mark, but the fingerprint (``fingerprint.py``), which
   `_compare` takes. It reads the providers in whose rows something differs (`find_changed_rows` in
   ``changes.py``); of memberships, traits and classes, all rows of each table whose sum differs; and the
   usage of all providers, if a row or the sum of consumers differs. `refresh` calls it also if `_follow`
   finds something that is not as the lines leave it; when else fingerprints are compared is said below.
4. *A server of an earlier release wrote.* It knows nothing of slots, but stores the time of its change in
   another table of ours. That time is a part of the mark: `refresh` sees that `Mark.counted_at` is later, and
   compares as in 3. The time of a new trait or class is not stored: it is found as if another program wrote.
5. *A resource class was renamed.* `_follow` or `_compare` finds its id with another name. Everything is read.
6. *The database has another history*, as after a restore from a backup, or a slot was deleted after a day
   without use. A count fell, a slot is gone or has the same count with another token (`find_changes` raises
   `WentBack`), or the database has another identity (`find_changes`, `_compare`). Everything is read.
7. *There is no snapshot yet*, or the tables of our own appeared or went away since it was read.
   `Current._read` in ``current.py`` sees the first, `refresh` the second, and `Current._get` the third, as
   `SchemaUnfit` is raised. Everything is read.

When fingerprints are compared
------------------------------

The mark takes a fraction of a millisecond at any size of the cloud, on every database, whoever else uses it,
and without a privilege. A comparison takes 10 ms at 10,000 providers on MariaDB, and half a millisecond more
for each thousand consumers. So a check compares only if a cause above says so, and
(`Current._read` in ``current.py``)

- for ten minutes after a worker found that another program wrote; it tells the others by a row of the slots
  (`writers.strangers_found`),
- if nothing has compared for `current.OVERDUE` seconds,
- always, if the operator said so by ``other_programs_write``,
- and always without the tables of our own, because the account may not create them, or because they are of a
  later release.

Meanwhile `Current.watch` compares in the background, every one to six seconds while there are requests. It
changes nothing in answers: if something differs, the next check compares and reads it.

Sums decide about other programs only. Hashes are not linear (see `Dialect.hash_of`); those of a better
quality, such as MD5 on PostgreSQL, take five times as long.

Alternatives that were rejected: triggers, which need privileges that placement's account rarely has and which
operators do not expect; a log of changes, whose ids are assigned before the commit; one counter for all
changes, for which all writers would queue; comparing times of changes, as clocks differ; transaction ids of
the database, which other databases on the same server change; and a row per provider, which every claim has
to write and every check has to sum up.
"""
