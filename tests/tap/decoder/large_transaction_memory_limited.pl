# Tests that a walsender's memory does not grow with large transactions, many changes, many tables and much DDL.
#
# CLAIRON_MEMORY_ROWS sets the rows of one transaction (20000; 700000 in the long form).
use strict;
use warnings;

use Clairon::Test qw(wait_until amount);
use IO::Select;
use Test::More;

my $rows = $ENV{CLAIRON_MEMORY_ROWS} // amount(20_000, 700_000);
my $pg = Clairon::Test::postgresql('main', conf => <<'CONF');
autovacuum = off
max_wal_size = 4GB
synchronous_commit = off
logical_decoding_work_mem = 1MB
max_locks_per_transaction = 256
CONF
my $connection = $pg->connstr('postgres');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

sub make_slot
{
    my ($slot, $plugin) = @_;
    sql("SELECT pg_create_logical_replication_slot('$slot', '$plugin')");
    return;
}

# Returns the private memory of a process in kB, or nothing if the process has ended.
sub memory
{
    my ($pid) = @_;
    open my $status, '<', "/proc/$pid/status" or return;
    return join('', <$status>) =~ /^RssAnon:\s+(\d+)/m;
}

# Reads a slot to its end. Returns [bytes so far, the walsender's memory], sampled every 64 kB or 20 ms.
sub read_slot
{
    my ($slot, @options) = @_;
    sql(q{SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'any', 'flush')});
    my $end = sql('SELECT pg_current_wal_flush_lsn()');
    my @command = (
        'pg_recvlogical', '-d', $connection, '--slot', $slot, '--start', '--no-loop',
        '--endpos', $end, '-f', '-', map { ('-o', $_) } @options);
    open my $out, '-|', @command or die "pg_recvlogical: $!";
    my $pid = wait_until(
        "a walsender reads $slot",
        sub { sql("SELECT active_pid FROM pg_replication_slots WHERE slot_name = '$slot'") });
    my $select = IO::Select->new($out);
    my ($got, @samples) = (0);
    while (1)
    {
        if ($select->can_read(0.02)) { $got += sysread($out, my $piece, 65536) || last }
        my ($kb) = memory($pid);
        push @samples, [$got, $kb] if $kb;
    }
    ok(close $out, 'all changes are read');
    return @samples;
}

# Compares memory with the baseline: the memory after a tenth of the output, when all caches are filled.
sub check_flat
{
    my ($what, @samples) = @_;
    my $all = $samples[-1][0];
    my @late = map { $_->[1] } grep { $_->[0] > $all / 10 } @samples;
    cmp_ok(scalar @late, '>', 10, "memory was sampled while $all bytes arrived");
    cmp_ok($late[-1] - $late[0], '<', amount(1024, 2048), sprintf '%s: memory grows by less than 1 MB (2 MB in the long form), from %d to %d kB', $what, @late[0, -1]);
    return;
}

# ---- a row with all types that allocate, by three rules, with and without a column list

sql(<<'SQL');
CREATE TYPE pair AS (a int, b text);
CREATE TABLE narrow (id int, v text);
CREATE TABLE mixed (id int PRIMARY KEY, who text[], n numeric, j jsonb, k json, p pair, l pair[],
    t timestamptz, i interval, r int4range, b bytea, d text);
ALTER TABLE mixed REPLICA IDENTITY FULL;
SELECT clairon.watch('narrow', 'ALL');
SELECT clairon.watch('mixed', 'ALL', columns => '{id,n,p}', name => 'a');
SELECT clairon.watch('mixed', 'USER', 'who', name => 'b', ack_required => true,
    only_when => 'n > 0 AND d <> ''x''');
SELECT clairon.watch('mixed', 'STRUCTURE', '=s1,s2', name => 'c', ttl => '1 day');
INSERT INTO mixed SELECT i, ARRAY['u1', 'u2'], 1.5, '{"a": [1, {"b": null}]}', '[1, "x"]', '(1,b)',
    '{"(2,c)"}', now(), '1 day', '[1,5)', '\x0102', repeat(md5(i::text), 20)
    FROM generate_series(1, 100) AS i;
SQL
make_slot('one', 'clairon');
sql("INSERT INTO narrow SELECT i, 'value ' || i FROM generate_series(1, $rows) AS i");
check_flat("a transaction of $rows rows", read_slot('one', 'mode=framed'));

my $changes = $rows > 600_000 ? 500_000 : 20_000;
sql(<<"SQL");
DO \$\$ BEGIN
    FOR turn IN 1 .. $changes / 50 LOOP
        UPDATE mixed SET n = turn % 7 - 2, who = ARRAY['u' || turn % 5, 'u2'], l = l WHERE id <= 50;
        COMMIT;
    END LOOP;
END \$\$
SQL
check_flat("$changes updates of a mixed row by three rules", read_slot('one', 'mode=framed'));
sql("DO \$\$ BEGIN FOR i IN 1 .. $changes LOOP INSERT INTO narrow VALUES (i, 'v');"
        . ' COMMIT; END LOOP; END $$'
);
check_flat("$changes transactions of one row", read_slot('one', 'mode=framed'));

# ---- many tables, many rules, much DDL: at most 10 MB and 10 kB per table more than test_decoding

make_slot('two', 'clairon');
make_slot('peer', 'test_decoding');
my $tables = amount(2000, 5000);
sql(<<"SQL");
DO \$\$ BEGIN
    FOR i IN 1 .. $tables LOOP
        EXECUTE format('CREATE TABLE many_%s (id int, a int)', i);
        IF i % 10 = 0 THEN
            PERFORM clairon.watch(format('many_%s', i)::regclass, 'ALL');
            COMMIT;
        END IF;
    END LOOP;
    FOR round IN 1 .. 2 LOOP
        FOR i IN 1 .. $tables LOOP
            EXECUTE format('INSERT INTO many_%s VALUES (%s)', i, round);
        END LOOP;
        COMMIT;
    END LOOP;
    FOR i IN 1 .. 300 LOOP
        EXECUTE 'CREATE TEMP TABLE passing (id int)';
        INSERT INTO passing VALUES (i);
        EXECUTE format('ALTER TABLE many_%s ADD COLUMN c%s int', i % 10 + 1, i);
        EXECUTE format('INSERT INTO many_%s VALUES (%s)', i % 10 + 1, i + 10);
        EXECUTE 'DROP TABLE passing';
        COMMIT;
    END LOOP;
END \$\$
SQL
my ($ours) = sort { $b <=> $a }
    map { $_->[1] } read_slot('two', 'mode=framed', 'include_tables=public.many_*');
my ($peers) = sort { $b <=> $a } map { $_->[1] } read_slot('peer');
cmp_ok($ours, '<', $peers + 10 * (1024 + $tables),
    $tables / 10 . " rules on $tables tables need $ours kB, test_decoding needs $peers");

done_testing();
