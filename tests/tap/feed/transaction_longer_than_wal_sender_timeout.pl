# Tests that the connection survives a transaction without output that PostgreSQL decodes for longer than
# wal_sender_timeout.
use strict;
use warnings;

use Clairon::Test qw(wait_confirmed);
use Test::More;
use Time::HiRes qw(time);

# Decoding each transaction takes longer than a second: the transactions are spilled to files, and the condition costs
# at least 50 us per row of `seldom`.
my $pg = Clairon::Test::postgresql('main', conf => "wal_sender_timeout = 1s\nlogical_decoding_work_mem = 64kB\n");
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    CREATE TABLE foreign_to_us (id int);
    CREATE TABLE seldom (id int, body text);
    SELECT clairon.watch('t', 'USER', 'owner');
    SELECT clairon.watch('seldom', 'ALL', only_when => $$ md5(repeat(body, 300)) = 'x' $$)});
my $store = Clairon::Test::store();
my $relay  = Clairon::Test::relay($pg, $store, conf => { 'gate.ping' => '1h' });
my $client = $relay->client('u1');
my $row    = 0;

sub check_connected
{
    my ($name) = @_;
    my $began = time;
    $pg->safe_psql('postgres', sprintf q{INSERT INTO t VALUES (%d, 'u1')}, ++$row);
    $client->wait_row($row);
    note sprintf '%s: %.1f s', $name, time - $began;
    is($relay->metric('clairon_feed_reconnects_total'), 0, "$name: the connection stays open");
    return;
}

check_connected('initially');
$pg->safe_psql('postgres', 'INSERT INTO foreign_to_us SELECT generate_series(1, 2000000)');
check_connected('a table without a rule');
$pg->safe_psql('postgres', q{INSERT INTO seldom SELECT i, repeat('x', 100) FROM generate_series(1, 30000) i});
check_connected('a rule that selects no row');
$pg->safe_psql('postgres', q{BEGIN; INSERT INTO foreign_to_us SELECT generate_series(1, 1000000); ROLLBACK});
check_connected('a rollback');

wait_confirmed($pg);
pass('the WAL of the transactions is confirmed');
is(scalar $store->entries, $row, 'no notification of the transactions is stored');
open my $file, '<', $pg->logfile or die $!;
is(scalar(grep { /replication timeout/ } <$file>), 0, 'the connection survives wal_sender_timeout');

done_testing();
