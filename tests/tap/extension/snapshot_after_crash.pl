# Tests that after a crash no transaction has an id that is contained in a snapshot from before the crash.
use strict;
use warnings;

use Test::More;
use Clairon::Test;

my $pg = Clairon::Test::postgresql('main', conf => "wal_writer_delay = 10s\n");

# No other write flushes the WAL of a transaction that is rolled back.
my ($id, $snapshot) = split /\n/, $pg->safe_psql('postgres', 'BEGIN; SELECT pg_current_xact_id(); ROLLBACK; SELECT clairon.snapshot()');
my ($xmin, $xmax) = split /:/, $snapshot;
is($xmin, $id + 1, 'a snapshot contains a transaction that was rolled back');
$pg->stop('immediate');
$pg->start;
my $next = $pg->safe_psql('postgres', 'SELECT pg_current_xact_id()');
cmp_ok($next, '>=', $xmax, 'the snapshot does not contain the first transaction after a crash');

done_testing();
