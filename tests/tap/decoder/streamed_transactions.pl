# Tests that a streamed transaction is sent completely at its commit and not before, even with rolled back parts and
# killed processes.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use IPC::Open2 qw(open2);
use JSON ();
use PostgreSQL::Test::Utils qw(slurp_file run_log);
use Test::More;

# With this temp_file_limit, decoding would fail if the limit applied to spool files.
my $pg = Clairon::Test::postgresql('main', conf => <<'CONF');
autovacuum = off
logical_decoding_work_mem = 64kB
max_prepared_transactions = 5
temp_file_limit = 64kB
CONF
my $connection = $pg->connstr('postgres');
my $file = PostgreSQL::Test::Utils::tempdir() . '/lines';

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# ---- a persistent session

sub session
{
    my $pid = open2(my $out, my $in, 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $connection);
    return { pid => $pid, in => $in, out => $out };
}

sub execute_in
{
    my ($session, $sql) = @_;
    print { $session->{in} } "$sql;\n\\echo done\n";
    $session->{in}->flush;
    while (defined(my $line = readline $session->{out})) { return if $line eq "done\n" }
    die "the session ended at: $sql\n";
}

sub end_session
{
    my ($session) = @_;
    local $SIG{PIPE} = 'IGNORE';
    close $session->{in};
    close $session->{out};
    waitpid $session->{pid}, 0;
    return;
}

# Inserts enough rows for several blocks, identified by their `v`.
sub insert { return "INSERT INTO t SELECT i, repeat('$_[0] ', 20) FROM generate_series(1, 2000) AS i" }

# ---- the slot and its client

# The client confirms each second, or never: confirmed changes are not streamed again before the commit.
sub start_reader
{
    my ($seconds) = @_;
    unlink $file;
    my $pid = fork // die "fork: $!";
    if ($pid == 0)
    {
        open STDERR, '>', "$file.log" or die;
        exec 'pg_recvlogical', '-d', $connection, '--slot', 's', '--start', '--no-loop', '-f', $file,
            '-F', '1', '-s', $seconds // 1, '-o', 'topic_prefix=p';
        die "pg_recvlogical: $!";
    }
    wait_until('the slot is active',
        sub { sql(q{SELECT active FROM pg_replication_slots WHERE slot_name = 's'}) eq 't' });
    return $pid;
}

# Stops the client after it has confirmed all changes.
sub stop_reader
{
    my ($pid) = @_;
    my $now = sql('SELECT pg_current_wal_flush_lsn()');
    wait_until('all changes are confirmed',
        sub { sql(qq{SELECT confirmed_flush_lsn >= '$now' FROM pg_replication_slots WHERE slot_name = 's'}) eq 't' }
    );
    kill 'INT', $pid;
    waitpid $pid, 0;
    wait_until('the slot is inactive',
        sub { sql(q{SELECT active FROM pg_replication_slots WHERE slot_name = 's'}) eq 'f' });
    return;
}

sub spooled { return sql('SELECT coalesce(sum(size), 0) FROM pg_ls_tmpdir()') }

sub spool_files { return sql('SELECT count(*) FROM pg_ls_tmpdir()') }

sub await_spool
{
    my ($what, $more_than) = @_;
    wait_until("$what is spooled", sub { spooled() > $more_than });
    return spooled();
}

sub await_no_spool
{
    my ($what) = @_;
    wait_until("$what: no spool file exists", sub { spool_files() == 0 });
    pass("$what: no temporary file remains");
    return;
}

# The complete lines: the client may be writing another one.
sub lines { my @lines = -e $file ? slurp_file($file) =~ /^(.*)\n/mg : (); return @lines }

sub await_lines
{
    my ($what, $count) = @_;
    wait_until("$what: $count lines arrive", sub { lines() >= $count });
    return lines();
}

# Returns the output of a second slot, which spills instead of streaming; resets the count.
sub expected
{
    my @lines = split /\n/,
        sql(q{SET temp_file_limit = -1; SELECT data FROM pg_logical_slot_get_changes('whole', NULL, NULL,
            'streaming', 'off', 'topic_prefix', 'p')});
    return @lines;
}

sub check_same
{
    my ($what, @lines) = @_;
    my @expected = expected();
    is(scalar @lines, scalar @expected, "$what: streaming and spilling return the same number of lines");
    my @wrong = grep { $lines[$_] ne $expected[$_] } 0 .. ($#lines < $#expected ? $#lines : $#expected);
    is(scalar @wrong, 0, "$what: streaming and spilling return the same lines") or diag("$lines[$wrong[0]]\n$expected[$wrong[0]]");
    return;
}

# Returns the number of occurrences of each first word of `v`, with its rule's target.
sub count_lines
{
    my %count;
    for (map { JSON::decode_json($_) } @_)
    {
        my ($after) = ($_->{payload}{after}{v} // $_->{payload}{v}) =~ /^(\w+)/;
        $count{"$after for $_->{routing}{audience}{targets}[0]"}++;
    }
    return \%count;
}

sql(q{CREATE TABLE t (id int, v text)});
sql(q{SELECT clairon.watch('t', 'USER', '=old')});
sql(qq{SELECT pg_create_logical_replication_slot('$_', 'clairon')}) for qw(s whole);
my $reader = start_reader();

# ---- two concurrent transactions, with rows, rules and messages that are rolled back after streaming

my ($one, $two) = (session(), session());
execute_in($one, 'BEGIN');
execute_in($one, insert('first'));
my $size = await_spool('the beginning', 200_000);
execute_in($two, 'BEGIN');
execute_in($two, insert('other'));
wait_until('two spool files exist', sub { spool_files() == 2 });
$size = await_spool('the other transaction', $size + 200_000);
execute_in($one, 'SAVEPOINT a');
execute_in($one, q{SELECT clairon.notify('USER', '{lost}', '{"v": "lost"}')});
execute_in($one, insert('lost'));
$size = await_spool('rolled back changes', $size + 200_000);
execute_in($one, 'ROLLBACK TO a');
execute_in($one, q{SELECT clairon.notify('USER', '{kept}', '{"v": "kept"}')});
execute_in($one, insert('after'));
await_spool('later changes', $size + 200_000);
is(scalar(lines()), 0, 'changes of open transactions are not sent');
sql(q{SELECT clairon.watch('t', 'USER', '=new')});
execute_in($two, insert('ruled'));
execute_in($two, 'COMMIT');
my @lines = await_lines('the other transaction', 4000);
is_deeply(
    count_lines(@lines), { 'other for old' => 2000, 'ruled for new' => 2000 },
    'the transaction that commits first is sent first, and each row by the rules at its WAL position');
# A transaction is not streamed after it has changed rules.
execute_in($one, 'SAVEPOINT b');
execute_in($one, q{SELECT clairon.watch('t', 'USER', '=lost')});
execute_in($one, insert('lost'));
execute_in($one, 'ROLLBACK TO b');
execute_in($one, insert('whole'));
execute_in($one, q{SELECT clairon.watch('t', 'USER', '=own')});
execute_in($one, insert('own'));
execute_in($one, 'COMMIT');
@lines = await_lines('the first transaction', 12_001);
is_deeply(
    count_lines(@lines[4000 .. $#lines]),
    { 'kept for kept' => 1, 'own for own' => 2000, 'whole for new' => 2000, map { ("$_ for old" => 2000) } qw(first after) },
    'rolled back changes are not sent');
check_same('two transactions', @lines);
await_no_spool('after commits');
my $streamed = sql(q{SELECT stream_txns > 1 FROM pg_stat_replication_slots WHERE slot_name = 's'});
is($streamed, 't', 'the server counts both transactions as streamed');

# ---- a complete rollback

execute_in($one, 'BEGIN');
execute_in($one, insert('gone'));
await_spool('a rolled back transaction', 200_000);
execute_in($one, 'ROLLBACK');
await_no_spool('after a rollback');
sql(q{INSERT INTO t VALUES (0, 'next')});
@lines = await_lines('after a rollback', 12_002);
is(scalar(lines()), 12_002, 'changes of a streamed transaction that was rolled back are not sent');
check_same('after a rollback', $lines[-1]);

# ---- tables without rules

my $count = q{SELECT stream_count FROM pg_stat_replication_slots WHERE slot_name = 's'};
my $before = sql($count);
sql('CREATE TABLE unwatched (id int, v text)');
execute_in($one, 'BEGIN');
execute_in($one, q{INSERT INTO unwatched SELECT i, repeat('x', 100) FROM generate_series(1, 4000) AS i});
wait_until('the transaction is streamed', sub { sql($count) > $before + 2 });
is(spool_files(), 0, 'changes without a rule need no spool file');
execute_in($one, 'SAVEPOINT a');
execute_in($one, insert('undone'));
execute_in($one, 'ROLLBACK TO a');
execute_in($one, q{INSERT INTO unwatched SELECT i, repeat('x', 100) FROM generate_series(1, 4000) AS i});
execute_in($one, insert('counted'));
execute_in($one, 'COMMIT');
@lines = await_lines('after changes without a rule', 14_002);
check_same('after changes without a rule', @lines[12_002 .. $#lines]);

# ---- the client disconnects within a transaction and reconnects

stop_reader($reader);
$reader = start_reader();
execute_in($one, 'BEGIN');
execute_in($one, insert('before'));
await_spool('an abandoned read', 200_000);
stop_reader($reader);
await_no_spool('without a reader');
execute_in($one, insert('between'));
$reader = start_reader();
await_spool('the next read', 400_000);
execute_in($one, insert('last'));
execute_in($one, 'COMMIT');
check_same('a reconnected client', await_lines('a reconnected client', 6000));

# ---- the disk has no space for the spool file

stop_reader($reader);
my ($tmp) = grep { -d } $pg->data_dir . '/base/pgsql_tmp';
my $confirmed = q{SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 's'};
execute_in($one, insert('late'));
my $confirmed_before = sql($confirmed);
my $mode = (stat $tmp)[2] & oct 7777;
chmod 0500, $tmp or die "chmod: $!";
ok(!run_log(
        ['pg_recvlogical', '-d', $connection, '--slot', 's', '--start', '--no-loop', '-f', $file]),
    'decoding ends when the disk has no space for the spool file');
chmod $mode, $tmp or die "chmod: $!";
is(sql($confirmed), $confirmed_before, 'the slot does not advance');
$reader = start_reader();
check_same('after space was freed', await_lines('after space was freed', 2000));

# ---- the walsender is killed, and the server restarts without the open transactions

stop_reader($reader);
# A checkpoint saves the confirmed position only if the slot is marked as changed.
sql(q{SELECT pg_logical_emit_message(true, 'any', 'more')});
sql(q{SELECT pg_replication_slot_advance('s', pg_current_wal_flush_lsn())});
sql('CHECKPOINT');
$reader = start_reader(0);
execute_in($one, 'BEGIN');
execute_in($one, insert('dead'));
execute_in($two, 'BEGIN');
execute_in($two, insert('prepared'));
await_spool('the data of both transactions', 400_000);
execute_in($two, q{PREPARE TRANSACTION 'p'});
my $walsender = sql(q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 's'});
kill 'KILL', $walsender;
waitpid $reader, 0;
end_session($_) for $one, $two;
wait_until('the server has stopped', sub { !-e $pg->data_dir . '/postmaster.pid' });
$pg->_update_pid(0);
$pg->start;
is(spool_files(), 0, 'the server removes the spool files of a killed walsender');
$reader = start_reader(0);
await_spool('the prepared transaction', 200_000);
sql('CHECKPOINT');
wait_until('the spool file of the aborted transaction is removed', sub { spool_files() == 1 });
is(scalar(lines()), 0, 'changes of a prepared or aborted transaction are not sent');
sql(q{COMMIT PREPARED 'p'});
@lines = await_lines('the prepared transaction', 2000);
is_deeply(count_lines(@lines), { 'prepared for own' => 2000 }, 'a prepared transaction is sent at its commit');
check_same('after a crash', @lines);
await_no_spool('the end of the test');
kill 'INT', $reader;
waitpid $reader, 0;

done_testing();
