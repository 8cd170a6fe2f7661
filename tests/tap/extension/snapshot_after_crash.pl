# Tests that, after a crash, no transaction has an id that a snapshot from before the crash contains.
use strict;
use warnings;

use Test::More;
use Clairon::Test;

my $pg = Clairon::Test::postgresql('main', conf => "wal_writer_delay = 10s\nautovacuum = off\n");

# The transaction is rolled back, so no other write flushes its WAL.
my ($id, $snapshot) = split /\n/, $pg->safe_psql('postgres', 'BEGIN; SELECT pg_current_xact_id(); ROLLBACK; SELECT clairon.snapshot()');
my ($xmin, $xmax) = split /:/, $snapshot;
is($xmin, $id + 1, 'a snapshot contains a transaction that was rolled back');
$pg->stop('immediate');
$pg->start;
my $next = $pg->safe_psql('postgres', 'SELECT pg_current_xact_id()');
cmp_ok($next, '>=', $xmax, 'a snapshot from before a crash does not contain the first transaction after the crash');

done_testing();
