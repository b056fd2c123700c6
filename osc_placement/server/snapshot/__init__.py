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
   usage of the providers that they name, and all of those of which more than the usage changed; if a trait or
   a class was added, removed or renamed, the names of all, and the providers with inventory of that class.
2. *The lines do not say all*: a slot had more transactions since the last check than it has lines
   (`writers.LINES`, `writers.CHARACTERS`), a transaction changed more providers than `writers.MANY`, all
   together more than `load.MANY`, or a line cannot be parsed. `find_changes` returns that everything may have
   changed, and `_follow` reads everything. So does ``placement-server db refresh``, whose line says so.
3. *The database has another history*, as after a restore from a backup. A count fell, a slot is gone or has
   the same count with another token, or the database has another identity: as in 2.
4. *Another program wrote*, which changes no slot. A thread of each worker compares all providers, some at a
   time, and all that an answer depends on (`Current.watch`, `find_outdated` in ``load.py``). The next check
   reads what differs. If the operator said by ``other_programs_write`` that others write, each check reads
   everything instead, and so does the first one after a pause in which nothing was compared.
5. *There are no tables of our own*, because the account may not create them, or they are of a later release:
   each check reads everything. `Current._get` notices if they go away, as `SchemaUnfit` is raised.

The mark takes a fraction of a millisecond at any size of the cloud, on every database, whoever else uses it,
and without a privilege. To read everything takes 40 to 80 microseconds for each provider with 60 traits, of
the worker and the database together; one that is the same keeps its place and what was computed of it.

Alternatives that were rejected: checksums of tables, which other programs' changes must be known to alter,
and which take the database as long as reading; triggers, which need privileges that placement's account
rarely has and which operators do not expect; a log of changes, whose ids are assigned before the commit; one
counter for all changes, for which all writers would queue; comparing times of changes, as clocks differ;
transaction ids of the database, which other databases on the same server change; and a row per provider,
which every claim has to write and every check has to sum up.
"""
