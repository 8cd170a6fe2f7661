# Tests that the rules of one table owner cannot exhaust or delay decoding for other owners, and that honest work of the
# same size is not denied.
use strict;
use warnings;

use Clairon::Test qw(amount wait_until);
use Test::More;
use Time::HiRes qw(time);

my $pg = Clairon::Test::postgresql('main', conf => 'autovacuum = off');
my $connection = $pg->connstr('postgres');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

sub as_mallory { return sql("SET ROLE mallory;\n$_[0]") }

# Returns the log text since the last call.
my $mark = 0;
sub new_log
{
    open my $log, '<', $pg->logfile or die $!;
    seek $log, $mark, 0;
    my $text = join '', <$log>;
    $mark += length $text;
    return $text;
}

sql(q{CREATE ROLE mallory LOGIN; CREATE SCHEMA own; GRANT CREATE, USAGE ON SCHEMA own TO mallory;
    CREATE ROLE alice LOGIN; CREATE SCHEMA near AUTHORIZATION alice;
    SET ROLE alice; CREATE TABLE near.t (id int PRIMARY KEY, s text);
    SELECT clairon.watch('near.t', 'USER', 's')});

my ($out, $reader, $walsender, $rows) = (undef, undef, undef, 0);

# The settings of the server process that decodes.
our $settings = '';

# Starts a reader of a new slot; the options are those of the slot.
sub start_reader
{
    my (@options) = @_;
    if ($reader)
    {
        kill 'INT', $reader;
        close $out;
        wait_until('the slot is free', sub { sql('SELECT count(*) FROM pg_replication_slots WHERE active') == 0 });
        sql(q{SELECT pg_drop_replication_slot('slot')});
    }
    sql(q{SELECT pg_create_logical_replication_slot('slot', 'clairon')});
    $reader = open $out, '-|', 'pg_recvlogical', '-d', "$connection options='$settings'", '--slot', 'slot', '--start', '--no-loop',
        '-f', '-', map { ('-o', $_) } @options
        or die "pg_recvlogical: $!";
    $walsender = wait_until('the slot is active',
        sub { sql(q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'slot' AND active}) });
    return;
}

# Commits a row of alice, and reads all lines up to hers. Returns the counts and bytes by source, and the CPU seconds of
# the walsender since the given reading of its clock.
sub read_to_alice
{
    my ($since) = @_;
    sql('INSERT INTO near.t VALUES (' . ++$rows . ", 'a')");
    my (%count, %bytes);
    while (my $line = <$out>)
    {
        my ($source) = $line =~ /"source":"(\w+\.\w+)"/ or die "unexpected line: $line";
        if ($source eq 'near.t')
        {
            return { count => \%count, bytes => \%bytes, cpu => cpu() - ($since // 0) };
        }
        $count{$source}++;
        $bytes{$source} += length $line;
    }
    die 'the walsender ended';
}

# Returns the CPU time of the walsender, in seconds.
sub cpu
{
    open my $stat, '<', "/proc/$walsender/stat" or die $!;
    my @fields = split ' ', (<$stat> =~ s/^.*\) //r);
    return ($fields[11] + $fields[12]) / 100;
}

# Returns the peak memory of the walsender in MB.
sub peak
{
    open my $status, '<', "/proc/$walsender/status" or die $!;
    my ($peak) = join('', <$status>) =~ /^VmHWM:\s+(\d+)/m;
    return $peak / 1024;
}

sub memory_and_time_of_plans
{
    my ($columns, $rules, $leaves) = (amount(600, 1500), amount(400, 2000), amount(20, 100));
    my $list = join ', ', map { "c$_ int" } 1 .. $columns;
    start_reader();
    read_to_alice();
    # The same columns in another order in each second partition.
    my $other = join ', ', map { "c$_ int" } reverse 1 .. $columns;
    as_mallory(qq{CREATE TABLE own.wide (id int, u text, $list) PARTITION BY LIST (id)});
    as_mallory($_ % 2
        ? "CREATE TABLE own.wide$_ PARTITION OF own.wide FOR VALUES IN ($_)"
        : "CREATE TABLE own.wide$_ ($other, u text, id int); ALTER TABLE own.wide ATTACH PARTITION own.wide$_ FOR VALUES IN ($_)")
        for 1 .. $leaves;
    sql(qq{SELECT clairon.watch('own.wide', 'USER', 'u', name => 'r' || i, operations => '{delete}')
        FROM generate_series(1, $rules) AS i});
    read_to_alice();
    my $start = cpu();
    as_mallory("INSERT INTO own.wide (id) SELECT i FROM generate_series(1, $leaves) AS i");
    my $read = read_to_alice($start);
    note(sprintf '%.0f MB, %.2f s of CPU', peak(), $read->{cpu});
    cmp_ok(peak(), '<', 200, "the plans of $rules rules, $columns columns and $leaves partitions are bounded");
    cmp_ok($read->{cpu}, '<', 1, 'a row for each of the partitions is decoded quickly');
    $start = cpu();
    for my $i (1 .. 30)
    {
        as_mallory("GRANT SELECT ON own.wide1 TO alice; INSERT INTO own.wide (id) VALUES (1);
            REVOKE SELECT ON own.wide1 FROM alice");
    }
    $read = read_to_alice($start);
    note(sprintf '%.2f s of CPU', $read->{cpu});
    cmp_ok($read->{cpu}, '<', 1, 'GRANT and REVOKE on a partition do not prepare its rules again');
    as_mallory('DROP TABLE own.wide');
    return;
}

sub conditions_survive
{
    my $terms = join ' AND ', map { "s <> 'x$_'" } 1 .. 249;
    start_reader();
    as_mallory(q{CREATE TABLE own.cond (id int PRIMARY KEY, s text)});
    sql(qq{SELECT clairon.watch('own.cond', 'USER', 's', name => 'r' || i, only_when => \$\$ s = 'y' AND $terms \$\$)
        FROM generate_series(1, 90) AS i});
    as_mallory(q{INSERT INTO own.cond VALUES (0, 'y')});
    my $read = read_to_alice();
    is($read->{count}{'own.cond'}, 90, 'each condition is met');
    new_log();
    my $start = cpu();
    as_mallory("ANALYZE own.cond; INSERT INTO own.cond VALUES ($_, 'n')") for 1 .. amount(30, 80);
    $read = read_to_alice($start);
    note(sprintf '%.2f s of CPU', $read->{cpu});
    cmp_ok($read->{cpu}, '<', 1, 'ANALYZE does not prepare conditions again');
    unlike(new_log(), qr/: denied/, 'no condition is denied');
    as_mallory(q{DROP TABLE own.cond});
    return;
}

sub long_numbers
{
    start_reader();
    read_to_alice();
    my $list = join ', ', map { "n$_ numeric" } 1 .. 40;
    my $values = join ', ', ('1e131071') x 40;
    as_mallory(qq{CREATE TABLE own.num (id int PRIMARY KEY, u text DEFAULT 'u', $list)});
    as_mallory(q{SELECT clairon.watch('own.num', 'USER', 'u', name => 'r' || i) FROM generate_series(1, 4) AS i});
    my $start = cpu();
    as_mallory("INSERT INTO own.num SELECT i, 'u', $values FROM generate_series(1, 20) AS i");
    my $read = read_to_alice($start);
    cmp_ok($read->{bytes}{'own.num'}, '<', 80_000_000, 'numbers that print long are bounded by the account of bytes');
    as_mallory('DROP TABLE own.num');
    return;
}

# Conditions that must be prepared again for each change, because its owner alters a type that they use.
sub time_account
{
    my $terms = join ' AND ', map { "s <> 'x$_'" } 1 .. 2000;
    start_reader();
    as_mallory(q{CREATE TYPE own.mood AS ENUM ('y', 'n'); CREATE TABLE own.cond (id int PRIMARY KEY, s text, m own.mood)});
    sql(qq{SELECT clairon.watch('own.cond', 'USER', 's', name => 'r' || i, only_when => \$\$ m = 'y' AND $terms \$\$)
        FROM generate_series(1, 12) AS i});
    read_to_alice();
    new_log();
    my $start = cpu();
    my $rounds = amount(60, 200);
    as_mallory("ALTER TYPE own.mood ADD VALUE 'v$_'; INSERT INTO own.cond VALUES ($_, 'n', 'n')") for 1 .. $rounds;
    cmp_ok(read_to_alice($start)->{cpu}, '<', 2.5, 'the time of preparing conditions is limited');
    like(new_log(), qr/owner "mallory": denied: the decoding time of the owner's rules is used up/,
        'a denial for lack of time is logged with the owner');
    my ($denied) = denials('time');
    cmp_ok($denied->{changes}, '>', 0, 'clairon.status counts the denied changes');
    is($denied->{owner}, 'mallory', 'clairon.status names the owner');
    sql(q{DELETE FROM clairon.rule WHERE relation = 'own.cond'::regclass AND name <> 'r1'});
    my $id = $rounds;
    wait_until('with one rule, its changes are sent again', sub {
        as_mallory('INSERT INTO own.cond VALUES (' . ++$id . ", 'u', 'y')");
        return read_to_alice()->{count}{'own.cond'};
    });
    as_mallory(q{DROP TABLE own.cond; DROP TYPE own.mood});
    return;
}

# Returns the denials of the account in clairon.status.
sub denials
{
    my ($account) = @_;
    my @rows = split /\n/, sql(qq{SELECT owner || ' ' || changes FROM clairon.status,
        jsonb_to_recordset(denied) AS d (owner name, account text, changes bigint)
        WHERE slot_name = 'slot' AND account = '$account'});
    return map { my ($owner, $changes) = split / /; { owner => $owner, changes => $changes } } @rows;
}

# Changes above the bytes of the account are denied and counted. Later ones are sent again.
sub bytes_account
{
    start_reader('owner_bytes=2MB');
    as_mallory(q{CREATE TABLE own.wordy (id int PRIMARY KEY, u text, n numeric);
        SELECT clairon.watch('own.wordy', 'USER', 'u', name => 'r' || i) FROM generate_series(1, 20) AS i});
    new_log();
    as_mallory(q{INSERT INTO own.wordy SELECT i, 'u', 1e100000 FROM generate_series(1, 10) AS i});
    my $read = read_to_alice();
    my $sent = $read->{count}{'own.wordy'};
    cmp_ok($read->{bytes}{'own.wordy'}, '>', 2_000_000, 'the bytes of the account are sent');
    cmp_ok($read->{bytes}{'own.wordy'}, '<', 2_500_000, 'the bytes above the account are not');
    like(new_log(), qr/owner "mallory": denied: notifications of the owner's tables exceed owner_bytes/,
        'a denial for lack of bytes is logged with the owner');
    my ($denied) = denials('bytes');
    is_deeply($denied, { owner => 'mallory', changes => 200 - $sent }, 'clairon.status counts each denied change of each rule');
    like(sql(q{SELECT check_name || ': ' || ok || ' ' || detail || ' ' || hint FROM clairon.doctor() WHERE check_name LIKE 'account%'}),
        qr/account of mallory: true @{[200 - $sent]} changes were denied by slot slot, for lack of bytes.*GRANT clairon_app TO mallory/,
        'doctor names the owner and the remedy');
    my $id = 100;
    wait_until('later changes are sent again', sub {
        as_mallory('INSERT INTO own.wordy VALUES (' . ++$id . ", 'u', 1)");
        return read_to_alice()->{count}{'own.wordy'};
    });
    sql('GRANT clairon_app TO mallory');
    as_mallory(q{INSERT INTO own.wordy SELECT i, 'u', 1e100000 FROM generate_series(1001, 1010) AS i});
    is(read_to_alice()->{count}{'own.wordy'}, 200, 'the bytes of a member of clairon_app are not limited');
    sql('REVOKE clairon_app FROM mallory');
    as_mallory('DROP TABLE own.wordy');
    return;
}

# The bytes refill with the time between commits, not only by the WAL of the changes, which are too few here.
sub bytes_refill
{
    my $list   = join ', ', map { "n$_ numeric" } 1 .. 50;
    my $values = join ', ', ('1e131071') x 50;
    start_reader('owner_bytes=30MB', 'owner_wal_factor=1');
    as_mallory(qq{CREATE TABLE own.refill (id int PRIMARY KEY, u text DEFAULT 'u', $list);
        SELECT clairon.watch('own.refill', 'USER', 'u');
        INSERT INTO own.refill SELECT i, 'u', $values FROM generate_series(1, 6) AS i});
    my $read = read_to_alice();
    is($read->{count}{'own.refill'}, 5, 'changes are sent until the bytes of the account are used up');
    my $over = $read->{bytes}{'own.refill'} - 30 * 1024 * 1024;
    cmp_ok($over, '>', 1_000_000, 'the last one exceeds the account by more than 1 MB');
    my $id = 100;
    wait_until('later changes are sent again', sub {
        as_mallory('INSERT INTO own.refill (id) VALUES (' . ++$id . ')');
        return read_to_alice()->{count}{'own.refill'};
    });
    cmp_ok(($id - 100) * 1000, '<', $over, 'after changes with less WAL than that');
    as_mallory('DROP TABLE own.refill');
    return;
}

# A transaction that is streamed is charged what its commit writes, not what its spool contains. `$before` is executed in
# the transaction.
sub bytes_of_streamed_transactions
{
    my ($what, $before) = @_;
    my %sent;
    for my $work_mem ('64MB', '64kB')
    {
        local $settings = "-c logical_decoding_work_mem=$work_mem";
        start_reader('owner_bytes=2MB');
        as_mallory(q{CREATE TABLE own.short (id int PRIMARY KEY, u text);
            SELECT clairon.watch('own.short', 'USER', 'u', name => 'r' || i, columns => '{id}') FROM generate_series(1, 20) AS i});
        as_mallory(qq{BEGIN; $before INSERT INTO own.short SELECT i, 'u' FROM generate_series(1, 2000) AS i; COMMIT});
        $sent{$work_mem} = read_to_alice()->{bytes}{'own.short'};
        as_mallory('DROP TABLE own.short');
    }
    note("$what: $sent{'64MB'} bytes sent of a plain transaction, $sent{'64kB'} of a streamed one");
    my ($streamed) = wait_until('the slot counts a streamed transaction',
        sub { sql(q{SELECT stream_txns FROM pg_stat_replication_slots WHERE slot_name = 'slot'}) });
    cmp_ok($streamed, '>', 0, "$what: the second transaction was streamed");
    cmp_ok($sent{'64MB'}, '<', 9_000_000, "$what: the bytes of many short rows are limited");
    cmp_ok($sent{'64kB'}, '<', $sent{'64MB'} * 1.05, "$what: the bytes of a streamed transaction are limited alike");
    cmp_ok($sent{'64kB'}, '>', $sent{'64MB'} * 0.95, "$what: a streamed transaction may send as much as a plain one");
    return;
}

sub annotate { return "SELECT clairon.annotate(data => jsonb_build_object('d', repeat('x', $_[0])));" }

# Changes that are short in the WAL but long in memory.
sub time_of_changes
{
    my ($arrays, $mb) = (amount(40, 150), amount(4, 10));
    start_reader('owner_time=100ms');
    as_mallory(q{CREATE TABLE own.arrays (id int PRIMARY KEY, users text[]);
        SELECT clairon.watch('own.arrays', 'USER', 'users', name => 'r' || i, columns => '{id}') FROM generate_series(1, 16) AS i});
    read_to_alice();
    my $start = cpu();
    as_mallory(qq{INSERT INTO own.arrays SELECT i, array_fill('a'::text, '{100000}') FROM generate_series(1, $arrays) AS i});
    my $read = read_to_alice($start);
    note(sprintf '%.2f s of CPU', $read->{cpu});
    cmp_ok($read->{cpu}, '<', 1, 'the time of reading long arrays of targets with 16 rules is limited');
    my ($denied) = denials('time');
    is_deeply($denied, { owner => 'mallory', changes => 16 * $arrays - $read->{count}{'own.arrays'} },
        'clairon.status counts the denied changes of each rule');
    as_mallory('DROP TABLE own.arrays');
    start_reader('owner_time=100ms');
    my $columns = join ', ', map { "c$_" } 1 .. 4;
    my $types = join ', ', map { "c$_ text" } 1 .. 4;
    my $values = join ', ', ("repeat('a', ${mb}000000) || 'x'") x 4;
    my $changes = join ', ', map { "c$_ = repeat('a', ${mb}000000) || 'y'" } 1 .. 4;
    as_mallory(qq{CREATE TABLE own.long (id int PRIMARY KEY, u text DEFAULT 'u', $types); ALTER TABLE own.long REPLICA IDENTITY FULL;
        INSERT INTO own.long SELECT 1, 'u', $values});
    sql(qq{SELECT clairon.watch('own.long', 'USER', 'u', name => 'r' || i, columns => '{$columns}') FROM generate_series(1, 100) AS i});
    read_to_alice();
    $start = cpu();
    as_mallory("UPDATE own.long SET $changes");
    $read = read_to_alice($start);
    note(sprintf '%.2f s of CPU', $read->{cpu});
    cmp_ok($read->{cpu}, '<', 1, 'the time of one change of long values with 100 rules is limited');
    cmp_ok($read->{count}{'own.long'}, '>', 0, 'the first rules send it');
    wait_until('small changes are sent again when the time is refilled', sub {
        as_mallory("UPDATE own.long SET u = 'v'; INSERT INTO own.long (id) SELECT max(id) + 1 FROM own.long");
        return read_to_alice()->{count}{'own.long'};
    });
    as_mallory('DROP TABLE own.long');
    return;
}

# TRUNCATE applies each rule without rows.
sub time_of_truncates
{
    my $rules = 1000;
    start_reader('owner_time=100ms', 'owner_bytes=10GB');
    as_mallory('CREATE TABLE own.short (id int, u text)');
    sql(qq{SELECT clairon.watch('own.short', 'ALL', name => 'r' || i, operations => '{truncate}') FROM generate_series(1, $rules) AS i});
    read_to_alice();
    my $turns = amount(300, 600);
    as_mallory("TRUNCATE own.short;\n" x $turns);
    my $sent = read_to_alice()->{count}{'own.short'};
    my ($denied) = denials('time');
    cmp_ok($sent, '>=', $rules, 'TRUNCATE is sent for each rule');
    is_deeply($denied, { owner => 'mallory', changes => $rules * $turns - $sent }, 'TRUNCATE is denied when the time is used up');
    as_mallory('DROP TABLE own.short');
    return;
}

# The store and the relay need time for each notification, so short rows with many rules are charged for them too.
sub time_of_notifications
{
    my ($rules, $rows) = (100, 1000);
    start_reader('owner_time=100ms', 'owner_bytes=10GB');
    as_mallory(q{CREATE TABLE own.short (id int PRIMARY KEY, u text)});
    sql(qq{SELECT clairon.watch('own.short', 'USER', 'u', name => 'r' || i) FROM generate_series(1, $rules) AS i});
    read_to_alice();
    my $begin = time;
    as_mallory(qq{INSERT INTO own.short SELECT i, 'u' FROM generate_series(1, $rows) AS i});
    my $sent = read_to_alice()->{count}{'own.short'};
    # In reserve, refilled at a tenth of the time, and earned by the rows.
    my $us = 100_000 + (time - $begin) * 100_000 + $rows * 7;
    note("$sent of " . $rules * $rows . ' notifications are sent');
    cmp_ok($sent, '<', $us / 3 * 1.1, 'each notification of a change with many rules is charged');
    cmp_ok($sent, '>=', $rules, 'the first rows are sent');
    as_mallory('DROP TABLE own.short');
    return;
}

# While its reader does not read, the walsender waits within a change.
sub waiting_is_not_charged
{
    my $rows = 2000;
    start_reader('owner_time=100ms');
    as_mallory(q{CREATE TABLE own.long (id int PRIMARY KEY, u text, s text); SELECT clairon.watch('own.long', 'USER', 'u')});
    read_to_alice();
    kill 'STOP', $reader;
    as_mallory(qq{INSERT INTO own.long SELECT i, 'u', repeat('s', 5000) FROM generate_series(1, $rows) AS i});
    wait_until('the walsender waits for the reader', sub { sql(q{SELECT wait_event FROM pg_stat_replication JOIN pg_stat_activity USING (pid)}) eq 'WalSenderWriteData' });
    my $until = sql(q{SELECT clock_timestamp() + '2 s'});
    wait_until('it has waited longer than its owner may decode', sub { sql("SELECT clock_timestamp() > '$until'") eq 't' });
    kill 'CONT', $reader;
    is(read_to_alice()->{count}{'own.long'}, $rows, 'the time for which the walsender waits is not charged');
    as_mallory('DROP TABLE own.long');
    return;
}

# Work that is as large as an attack, but honest.
sub honest_work
{
    start_reader();
    new_log();
    my ($rules, $leaves, $rows) = (50, 200, amount(10_000, 300_000));
    as_mallory(qq{CREATE TABLE own.parted (id int, u text, s text) PARTITION BY LIST (id);
        SELECT clairon.watch('own.parted', 'USER', 'u', name => 'r' || i, only_when => 'id >= 0') FROM generate_series(1, $rules) AS i});
    as_mallory("CREATE TABLE own.part$_ PARTITION OF own.parted FOR VALUES IN ($_)") for 1 .. $leaves;
    as_mallory("INSERT INTO own.parted SELECT i, 'u', 'text' FROM generate_series(1, $leaves) AS i");
    my $start = cpu();
    is(read_to_alice($start)->{count}{'own.parted'}, $rules * $leaves, "$rules rules on $leaves partitions send everything");
    as_mallory(q{DROP TABLE own.parted});
    as_mallory(q{CREATE TABLE own.doc (id int PRIMARY KEY, users text[], body text);
        SELECT clairon.watch('own.doc', 'USER', 'users');
        INSERT INTO own.doc SELECT i, (SELECT array_agg('user' || j) FROM generate_series(1, 5000) AS j), repeat('b', 1048000)
        FROM generate_series(1, 10) AS i});
    is(read_to_alice()->{count}{'own.doc'}, 10, 'documents of 1 MB to 5000 targets are sent');
    as_mallory(qq{CREATE TABLE own.bulk (id int PRIMARY KEY, u text, s text); ALTER TABLE own.bulk REPLICA IDENTITY FULL;
        SELECT clairon.watch('own.bulk', 'USER', 'u');
        INSERT INTO own.bulk SELECT i, 'u' || i, repeat('s', 1000) FROM generate_series(1, $rows) AS i});
    is(read_to_alice()->{count}{'own.bulk'}, $rows, "$rows rows of 1 kB in one statement are sent");
    as_mallory('DELETE FROM own.bulk');
    is(read_to_alice()->{count}{'own.bulk'}, $rows, 'as many deletes are sent');
    as_mallory(qq{INSERT INTO own.bulk SELECT i, 'u', 's' FROM generate_series(1, $rows) AS i});
    is(read_to_alice()->{count}{'own.bulk'}, $rows, 'as many short rows are sent');
    unlike(new_log(), qr/: denied/, 'honest work is not denied');
    is(sql('SELECT count(denied) FROM clairon.status'), 0, 'clairon.status has no denials');
    as_mallory('DROP TABLE own.doc, own.bulk');
    return;
}

memory_and_time_of_plans();
conditions_survive();
time_account();
long_numbers();
bytes_account();
bytes_refill();
bytes_of_streamed_transactions('short rows', '');
bytes_of_streamed_transactions('annotated rows', annotate(1000));
as_mallory('CREATE TABLE own.ballast ()');
# Enough changes that the annotation to be rolled back is streamed.
bytes_of_streamed_transactions('after a rollback of an annotation', annotate(500) . 'SAVEPOINT a;' . annotate(4000)
        . "INSERT INTO own.ballast SELECT FROM generate_series(1, 2000); ROLLBACK TO a;");
time_of_changes();
time_of_truncates();
time_of_notifications();
waiting_is_not_charged();
honest_work();
kill 'INT', $reader;
done_testing();
