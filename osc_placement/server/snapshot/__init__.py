# SPDX-License-Identifier: Apache-2.0
"""The snapshot of the database that each worker keeps in memory, and how it is kept up to date.

Candidates and lists of providers are searched in the snapshot. Every answer has to reflect every transaction
that a server of this project acknowledged before the request arrived, on whichever host, so the database is
asked at each request. There are three levels; each is tried only if the one before found a difference.

1. *Did one of our servers commit a change?* (`vector`) Each transaction of ours increments the count of a
   slot, a row that only its process writes (`db.writers`). One statement sums these rows up: as many as there
   are threads that write, so a fraction of a millisecond at any size of the cloud, on every database, whoever
   else uses it, and without a privilege.
2. *What did it change?* (`load`) The slots describe their last transactions: the providers concerned, and
   whether their usage, their contents or their rows changed. Exactly these are read.
3. *What is different at all?* (`fingerprint`, `changes`) Compares sums of hashes over providers, memberships,
   traits, classes and consumers: 10 ms at 10,000 providers on MariaDB, and half a millisecond more for each
   thousand consumers. Then the providers whose rows differ are read, and the usage of all. This is done if
   the slots do not describe all changes, and to find the changes of other programs.

Other programs write nothing into slots. While none writes, a comparison in the background finds the first
change of one, after some seconds; from then on, until ten minutes after its last change, each check compares
(`current`). An operator who runs another program on purpose says so by ``other_programs_write``. Servers of
earlier releases of this project are such programs, but each of their changes shows at level 1,
because they store its time in a table of ours. They find the changes of this release as those of any other
program, by generations and consumers, at each of their checks.

What is read for one answer belongs to one transaction, which begins with the statement of level 1. Everything
is read again if the history of the database does not continue: if a count fell, a slot is gone or has another
token, or the database has another identity, as after a restore from a backup.

Without the tables of our own, because the account may not create them, or because they are of a later
release, each check is one of level 3.

Sums decide about other programs only. Hashes are not linear (see `Dialect.hash_of`); those of a better
quality, such as MD5 on PostgreSQL, take five times as long. A provider that is known to have changed is read
again whatever a sum says.

Alternatives that were rejected: triggers, which need privileges that placement's account rarely has and which
operators do not expect; a log of changes, whose ids are assigned before the commit; one counter for all
changes, for which all writers would queue; comparing times of changes, as clocks differ; transaction ids of
the database, which other databases on the same server change; and a row per provider, which every claim has
to write and every check has to sum up.
"""
