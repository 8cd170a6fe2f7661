# Tests rule evaluation specific to a walsender: prepared transactions, a role without privileges, functions that
# execute SQL, and termination.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use IPC::Run ();
use JSON ();
use PostgreSQL::Test::Utils qw(slurp_file run_log);
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => 'max_prepared_transactions = 5');
my $connection = $pg->connstr('postgres') . ' user=relay';
my $file       = PostgreSQL::Test::Utils::tempdir() . '/lines';

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# Returns the slot's output up to now and confirms it.
sub receive_lines
{
    my $end = sql('SELECT pg_current_wal_flush_lsn()');
    unlink $file;
    ok(run_log([ 'pg_recvlogical', '-d', $connection, '--slot', 's', '--start', '--no-loop', '--endpos', $end,
            '-f', $file ]), 'the slot is read');
    return split /\n/, slurp_file($file);
}

sub receive { return map { JSON::decode_json($_) } receive_lines() }

# Returns the value of v and the targets of each notification.
sub values_and_targets { return [ map { "$_->{payload}{after}{v} to @{ $_->{routing}{audience}{targets} }" } @_ ] }

sql(q{CREATE TABLE t (id int, v text);
    SELECT clairon.watch('t', 'USER', '=first');
    SELECT pg_create_logical_replication_slot('s', 'clairon', false, true)});

# A rule in a prepared transaction applies after its COMMIT PREPARED.
sql(q{BEGIN; INSERT INTO t VALUES (1, 'p1'); SELECT clairon.watch('t', 'USER', '=prepared');
    INSERT INTO t VALUES (2, 'p2'); PREPARE TRANSACTION 'p'});
sql(q{INSERT INTO t VALUES (4, 'between')});
is_deeply(values_and_targets(receive()), ['between to first'], 'a rule does not apply before COMMIT PREPARED');
sql(q{COMMIT PREPARED 'p'; INSERT INTO t VALUES (5, 'after')});
is_deeply(values_and_targets(receive()), [ 'p1 to first', 'p2 to prepared', 'after to prepared' ],
    'after COMMIT PREPARED, a rule applies from its WAL position in the prepared transaction');
sql(q{BEGIN; SELECT clairon.watch('t', 'USER', '=undone'); INSERT INTO t VALUES (6, 'undone');
    PREPARE TRANSACTION 'q'});
sql(q{ROLLBACK PREPARED 'q'; INSERT INTO t VALUES (7, 'on')});
is_deeply(values_and_targets(receive()), ['on to prepared'], 'a rule never applies after ROLLBACK PREPARED');

# The role that reads the slot has no privileges on the objects of a condition, but the table's owner has.
sql(q{CREATE SCHEMA closed; CREATE EXTENSION citext SCHEMA closed; CREATE EXTENSION hstore SCHEMA closed;
    REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA closed FROM PUBLIC;
    CREATE TABLE c (id int, v closed.citext, h closed.hstore);
    SET search_path = closed, public;
    SELECT clairon.watch('c', 'USER', '=u1', only_when => $$v = 'YES' AND h -> 'k' = 'v'$$)});
sql(q{INSERT INTO c VALUES (1, 'yes', 'k=>v'), (2, 'yes', 'k=>w'), (3, 'no', 'k=>v')});
my @notifications = receive();
is_deeply([ map { $_->{payload}{after} } @notifications ], [ { id => 1, v => 'yes', h => '"k"=>"v"' } ],
    'a condition is evaluated with the privileges of the table\'s owner');

# A function that started to execute SQL after its rule was created is not called, because a walsender has no snapshot
# for it.
sql(q{CREATE DOMAIN d AS int;
    CREATE FUNCTION runs_sql(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS
        'BEGIN RETURN (SELECT count(*) >= 0 FROM t); END';
    CREATE FUNCTION longer(text, text) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'text_gt';
    SELECT clairon.watch('t', 'USER', '=domain', name => 'domain', only_when => 'id::d > 0');
    SELECT clairon.watch('t', 'USER', '=function', name => 'function', only_when => $$longer(v, 'a')$$)});
sql(q{INSERT INTO t VALUES (8, 'm')});
sql(q{ALTER DOMAIN d ADD CHECK (runs_sql(VALUE));
    CREATE OR REPLACE FUNCTION longer(text, text) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS
        'BEGIN RETURN (SELECT count(*) >= 0 FROM t); END'});
sql(q{INSERT INTO t VALUES (9, 'n')});
is_deeply(values_and_targets(receive()), [ 'm to prepared', 'm to domain', 'm to function', 'n to prepared' ],
    'conditions that execute SQL are denied, and later changes are decoded');
like(slurp_file($pg->logfile), qr/clairon rule "function" on "t": denied: could not evaluate only_when\n.*function \S+\.longer\(\S+\) is not allowed/, 'a denied condition is logged with its reason');

# A walsender can be terminated within a large transaction, without a loss.
sql(q{SELECT clairon.unwatch('t', 'domain'), clairon.unwatch('t', 'function');
    INSERT INTO t SELECT i, 'many' FROM generate_series(1, 200000) AS i});
unlink $file;
my $reader = IPC::Run::start([ 'pg_recvlogical', '-d', $connection, '--slot', 's', '--start', '--no-loop',
        '-f', $file ], '2>', \my $error, IPC::Run::timeout($Clairon::Test::SECONDS));
wait_until('rows arrive', sub { -s $file });
is(sql(q{SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots WHERE slot_name = 's'}), 't',
    'the walsender ends when terminated');
$reader->finish;
like($error, qr/terminating connection due to administrator command/, 'the walsender ends within the transaction');
is(scalar(receive_lines()), 200000, 'all rows are read again');

done_testing();
