# Tests that notifications decoded on a standby contain the 64-bit transaction ids of the primary.
use strict;
use warnings;

use Clairon::Test qw(wait_until pg_major);
use PostgreSQL::Test::Utils qw(run_log);
use Test::More;

plan skip_all => 'PostgreSQL before 16 cannot decode on a standby' if pg_major() < 16;

my $primary = Clairon::Test::postgresql('primary', conf => "logical_decoding_work_mem = 64kB\nmax_prepared_transactions = 5\n");
$primary->stop;
ok(run_log([ 'pg_resetwal', '-e', 3, '-D', $primary->data_dir ]), 'the epoch is set');
$primary->start;
my $standby = Clairon::Test::standby($primary);
sub sql { return $primary->safe_psql('postgres', $_[0]) }
sub standby_sql { return $standby->safe_psql('postgres', $_[0]) }

sql(q{
    CREATE TABLE rows (id int PRIMARY KEY, owner text, xid text DEFAULT pg_current_xact_id()::text, body text);
    ALTER TABLE rows REPLICA IDENTITY FULL;
    SELECT clairon.watch('rows', 'USER', 'owner', live => true)});
my $relay = Clairon::Test::relay($standby, Clairon::Test::store(), wait => 0);
wait_until('the slot is being created', sub {
    standby_sql(q{SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'clairon' AND restart_lsn IS NOT NULL}) });
sql('SELECT pg_log_standby_snapshot()');
$relay->wait_for_log(qr/streaming from slot/);

my $client = $relay->client('u1');
sql(q{BEGIN; INSERT INTO rows VALUES (1, 'u1'); PREPARE TRANSACTION 'p'});
sql(q{INSERT INTO rows VALUES (2, 'u1')});
sql(q{BEGIN; SAVEPOINT a; INSERT INTO rows VALUES (3, 'u1'); RELEASE a; INSERT INTO rows VALUES (4, 'u1'); COMMIT});
sql(q{BEGIN; SAVEPOINT a; INSERT INTO rows (id, owner, body) SELECT i, 'u1', repeat('b', 200) FROM generate_series(1000, 2000) AS i; COMMIT});
sql(q{COMMIT PREPARED 'p'});
$client->wait_row(1);
my @rows = grep { $_->{t} eq 'msg' } @{ $client->{messages} };
is(scalar(@rows), 1005, 'all rows of the primary arrive');
is(scalar(grep { $_->{x} eq $_->{n}{payload}{after}{xid} } @rows), 1005, 'the rows have the transaction ids of the primary');
is(scalar(grep { $_->{x} >> 32 == 3 } @rows), 1005, 'the ids have the epoch of the primary');
is(scalar(grep { ($_->{rule} // '') eq 'default' } @rows), 1005, 'the rows have the name of their live rule');

$primary->stop('immediate');
$standby->promote;
standby_sql(q{INSERT INTO rows VALUES (5, 'u1')});
my $after = $client->wait_row(5);
is($after->{x}, $after->{n}{payload}{after}{xid},
    'after a promotion, rows have the transaction ids of the new primary');

done_testing();
