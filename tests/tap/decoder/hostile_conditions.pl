# Tests that a table owner cannot stop, crash or misuse the decoding server with an only_when condition.
use strict;
use warnings;

use Clairon::Test qw(wait_until pg_major);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
my $connection = $pg->connstr('postgres');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

sub as_attacker { return sql("SET ROLE attacker;\n$_[0]") }

# Reports whether the log after the mark has a matching line.
sub logged
{
    my ($mark, $line) = @_;
    open my $log, '<', $pg->logfile or die $!;
    seek $log, $mark, 0;
    return join('', <$log>) =~ $line;
}

sub log_mark { return -s $pg->logfile }

sql(q{CREATE ROLE attacker LOGIN IN ROLE clairon_app;
    CREATE SCHEMA own AUTHORIZATION attacker;
    CREATE TABLE public.other (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('public.other', 'USER', 'owner')});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $client = $relay->client('u1');
$client->wait_for('connected');
my $start = log_mark();
my $others = 0;

# Checks that later changes reach their user, and that the rule is denied with this reason.
sub check_denied
{
    my ($name, $mark, $reason) = @_;
    $others++;
    sql("INSERT INTO public.other VALUES ($others, 'u1')");
    is(($client->wait_notifications($others))[-1]{payload}{after}{id}, $others, "$name: later changes are delivered");
    wait_until("$name: the log has the reason", sub { logged($mark, qr/\Q$reason\E/) });
    pass("$name: the denial is logged with its reason");
    return;
}

# The attacker replaces an operator by one that executes its argument as SQL.
my $mark = log_mark();
as_attacker(q{
    CREATE TABLE own.calls (who text);
    CREATE FUNCTION own.f() RETURNS tsquery LANGUAGE plpgsql AS
        $$BEGIN INSERT INTO own.calls VALUES (current_user); RAISE LOG 'own.f runs'; RETURN 'a'; END$$;
    CREATE TABLE own.t (id int PRIMARY KEY, q tsquery, s tsquery);
    CREATE OPERATOR own.@@@ (FUNCTION = pg_catalog.tsquery_and, LEFTARG = tsquery, RIGHTARG = tsquery);
    SELECT clairon.watch('own.t', 'USER', '=x', only_when => $$ (q OPERATOR(own.@@@) s) IS NULL $$);
    DROP OPERATOR own.@@@ (tsquery, tsquery);
    ALTER TABLE own.t ALTER s TYPE text;
    CREATE OPERATOR own.@@@ (FUNCTION = pg_catalog.ts_rewrite, LEFTARG = tsquery, RIGHTARG = text);
    INSERT INTO own.t VALUES (1, 'a', $$SELECT 'a'::tsquery, own.f()$$)});
sql("SELECT pg_create_logical_replication_slot('by_sql', 'clairon')");
as_attacker(q{INSERT INTO own.t VALUES (2, 'a', $$SELECT 'a'::tsquery, own.f()$$)});
check_denied('SQL by an operator', $mark, 'functions in only_when must be marked IMMUTABLE');
is(sql(q{SELECT count(*) FROM pg_logical_slot_get_changes('by_sql', NULL, NULL)}), 1,
    'a read by a superuser also denies the rule');
is(sql('SELECT count(*) FROM own.calls'), 0, 'the attacker\'s code does not run');
ok(!logged($start, qr/LOG:  own\.f runs/), 'the attacker\'s function does not run, not even in a rolled back transaction');

# The attacker replaces operators by operators that take a lock or drop a slot.
$mark = log_mark();
as_attacker(q{
    CREATE TABLE own.n (id bigint PRIMARY KEY, slot name);
    CREATE OPERATOR own.@@@ (FUNCTION = pg_catalog.int8up, RIGHTARG = bigint);
    CREATE OPERATOR own.@# (FUNCTION = pg_catalog.quote_ident, RIGHTARG = text);
    SELECT clairon.watch('own.n', 'USER', '=x', only_when => $$ (OPERATOR(own.@@@) id) IS NOT NULL $$);
    SELECT clairon.watch('own.n', 'USER', '=x', name => 'slot',
        only_when => $$ (OPERATOR(own.@#) slot::text) IS NOT NULL $$);
    DROP OPERATOR own.@@@ (NONE, bigint), own.@# (NONE, text);
    CREATE OPERATOR own.@@@ (FUNCTION = pg_catalog.pg_advisory_lock, RIGHTARG = bigint);
    CREATE OPERATOR own.@# (FUNCTION = pg_catalog.pg_drop_replication_slot, RIGHTARG = name)});
sql("SELECT pg_create_physical_replication_slot('of_a_standby')");
as_attacker("INSERT INTO own.n VALUES (42, 'of_a_standby')");
check_denied('a lock and a slot', $mark, 'rule "slot" on "own.n": denied');
is(sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 0, 'no advisory lock is held');
is(sql("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'of_a_standby'"), 1,
    'the slot still exists');

# A function of an extension, marked IMMUTABLE by the superuser, executes SQL.
$mark = log_mark();
sql(q{CREATE FUNCTION public.rewrite(tsquery, text) RETURNS tsquery IMMUTABLE LANGUAGE internal AS 'tsquery_rewrite_query'});
as_attacker(q{
    CREATE TABLE own.e (id int PRIMARY KEY, q tsquery, s text);
    CREATE FUNCTION own.g() RETURNS tsquery LANGUAGE plpgsql AS
        $$BEGIN RAISE LOG 'own.g runs as %', current_user; RETURN 'a'; END$$;
    CREATE FUNCTION own.h() RETURNS tsquery LANGUAGE plpgsql AS
        $$BEGIN CREATE TABLE own.made (); RETURN 'a'; END$$;
    SELECT clairon.watch('own.e', 'USER', '=x', only_when => $$ public.rewrite(q, s) IS NULL $$);
    INSERT INTO own.e VALUES (1, 'a', $$SELECT 'a'::tsquery, own.g()$$), (2, 'a', $$SELECT 'a'::tsquery, own.h()$$)});
if (pg_major() < 18)
{
    check_denied('SQL in an extension', $mark, 'cannot execute CREATE TABLE in a read-only transaction');
    ok(logged($mark, qr/LOG:  own\.g runs as attacker/), 'a condition runs with the privileges of the table\'s owner');
}
else { check_denied('SQL in an extension', $mark, 'cannot take query snapshot during logical decoding') }

# Evaluations exceed the time or memory limit.
$mark = log_mark();
as_attacker(q{
    CREATE TABLE own.w (id int PRIMARY KEY, s text);
    SELECT clairon.watch('own.w', 'USER', '=x', only_when => $$ s ~ '^(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)\8\7\6\5\4\3\2\1(.)\9$' $$);
    INSERT INTO own.w VALUES (1, repeat('a', 140))});
check_denied('a regular expression', $mark, 'evaluation exceeded condition_timeout (100 ms)');
$mark = log_mark();
as_attacker(q{
    SELECT clairon.unwatch('own.w');
    SELECT clairon.watch('own.w', 'USER', '=x', name => 'memory',
        only_when => $$ repeat(s, 900000) <> repeat(s, 900001) AND repeat(s, 900002) <> repeat(s, 900003) $$);
    INSERT INTO own.w VALUES (2, repeat('a', 1000))});
check_denied('memory', $mark, 'evaluation exceeded the memory limit (64 MB)');
my $walsender = sql('SELECT active_pid FROM pg_replication_slots WHERE active');
open my $status, '<', "/proc/$walsender/status" or die $!;
my ($peak) = join('', <$status>) =~ /^VmHWM:\s+(\d+)/m;
cmp_ok($peak, '<', 300_000, 'the walsender needs less than 300 MB');
open my $limits, '<', "/proc/$walsender/limits" or die $!;
like(join('', <$limits>), qr/^Max data size\s+unlimited/m, 'the default limits are restored');

# Thousands of evaluations exceed an owner's total time limit.
$mark = log_mark();
as_attacker(q{
    SELECT clairon.unwatch('own.w');
    SELECT clairon.watch('own.w', 'USER', '=x', name => 'many',
        only_when => $$ s ~ '^(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)\8\7\6\5\4\3\2\1(.)\9$' $$);
    INSERT INTO own.w SELECT i, repeat('a', 140) FROM generate_series(10, 3000) AS i});
check_denied('an owner with exhausted time', $mark, "evaluation time limit of the table's owner is reached");

ok(!logged($start, qr/terminated by signal|server process .* was terminated|reinitializing/), 'no server process has crashed');
$relay->stop;

# Cancel requests, terminate requests and statement_timeout end an evaluation.
as_attacker(q{UPDATE own.w SET s = repeat('a', 140) WHERE id = 1});
sql("SELECT pg_create_logical_replication_slot('patient', 'clairon')");
as_attacker(q{UPDATE own.w SET s = repeat('a', 141) WHERE id = 1});

# Returns the CPU time of a process, in clock ticks.
sub cpu
{
    my ($pid) = @_;
    open my $stat, '<', "/proc/$pid/stat" or return 0;
    my @fields = split ' ', (<$stat> =~ s/^.*\) //r);
    return $fields[11] + $fields[12];
}

for my $how (qw(pg_cancel_backend pg_terminate_backend))
{
    my @command = ('pg_recvlogical', '-d', $connection, '--slot', 'patient', '--start', '--no-loop',
        '-f', '-', '-o', 'condition_timeout=60s');
    my $child = open my $out, '-|', @command or die "pg_recvlogical: $!";
    my $pid = wait_until('the slot is active',
        sub { sql(q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'patient'}) });
    wait_until('the condition is being evaluated', sub { cpu($pid) > 30 });
    is(sql("SELECT $how($pid)"), 't', "$how succeeds during an evaluation");
    my $ended = ok(eval { wait_until('the walsender has ended', sub { !kill 0, $pid }) }, "$how: the walsender ends");
    kill 'KILL', $child unless $ended;
    close $out;
    # If the walsender does not end, it confirms the change, and no evaluation remains to be cancelled.
    last unless $ended;
}
my ($code, $stdout, $stderr) = $pg->psql('postgres', q{SET statement_timeout = '500ms';
    SELECT count(*) FROM pg_logical_slot_peek_changes('patient', NULL, NULL, 'condition_timeout', '60s')});
like($stderr, qr/canceling statement due to statement timeout/, 'statement_timeout ends the statement');
is(sql(q{SET statement_timeout = '20s';
    SELECT count(*) FROM pg_logical_slot_peek_changes('patient', NULL, NULL)}), 0,
        'a longer timeout does not end the statement');
done_testing();
