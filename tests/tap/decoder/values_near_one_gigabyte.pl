# Tests that a value near 1 GB is replaced by a stub, without more memory than the server itself needs for it.
#
# CLAIRON_LONG=1 also tests 600 MB of text, 200 MB of jsonb, and arrays of many MB, all with REPLICA IDENTITY FULL.
use strict;
use warnings;

use Clairon::Test qw(top scratch);
use JSON ();
use Test::More;

# Disk space for the data directory, the WAL and two spills.
my $MB = $ENV{CLAIRON_LONG} ? 12_000 : 3_000;
my $free = (split ' ', (qx{df -Pm '@{[scratch()]}'})[1])[3];
plan skip_all => "needs $MB MB of free disk, available: $free" if $free < $MB;

# With huge pages the test needs less than half of the CPU time, because a value of 1 GB has 262 144 small pages.
$ENV{GLIBC_TUNABLES} = 'glibc.malloc.hugetlb=1';
my $pg = Clairon::Test::postgresql('main', conf => <<'CONF');
max_wal_size = 4GB
checkpoint_timeout = 1h
autovacuum = off
CONF

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# Returns the lines and the peak memory, in MB, of one backend that reads a slot.
sub read_slot
{
    my ($slot, @options) = @_;
    my $options = join ', ', map {"'$_'"} @options;
    my $call = "pg_logical_slot_peek_binary_changes('$slot', NULL, NULL, $options)";
    my @out = split /\n/, sql(<<"SQL");
SELECT convert_from(data, 'UTF8') FROM $call WHERE length(data) < 50000000;
SELECT 'VmHWM ' || substring(pg_read_file('/proc/self/status') FROM 'VmHWM:\\s+(\\d+)');
SQL
    my ($kb) = (pop @out) =~ /^VmHWM (\d+)$/ or die "no VmHWM: @out";
    return ($kb / 1024, @out);
}

sub ours { return read_slot('ours', 'include_tables', '*', @_) }

# The server reassembles the chunks of a row for any plugin; this plugin writes no output.
sub floor_mb
{
    return (read_slot('floor', 'proto_version', '1', 'publication_names', 'nothing'))[0];
}

sub make_slots
{
    for my $slot (qw(ours floor))
    {
        my $plugin = $slot eq 'ours' ? 'clairon' : 'pgoutput';
        sql(      "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                . " WHERE slot_name = '$slot'");
        sql("SELECT pg_create_logical_replication_slot('$slot', '$plugin')");
    }
    return;
}

sub payloads
{
    return [map { JSON::decode_json($_)->{payload} } @_];
}

sql('CREATE PUBLICATION nothing');
sql('CREATE TABLE big (id int PRIMARY KEY, v bytea, n int);'
        . 'ALTER TABLE big ALTER v SET STORAGE EXTERNAL'
);
make_slots();
sql(<<'SQL');
INSERT INTO big VALUES (1, '\x00', 0);
INSERT INTO big SELECT 2, convert_to(repeat('0123456789', 30000000), 'UTF8'), 0;
UPDATE big SET n = 1 WHERE id = 2;
DELETE FROM big WHERE id = 2;
INSERT INTO big VALUES (3, '\xffff', 0);
SQL
my ($mb, @lines) = ours();
is_deeply(
    payloads(@lines),
    [   { before => undef, after => { id => 1, v => 'AA==', n => 0 } },
        { before => undef, after => { id => 2, v => undef, n => 0 }, truncated => ['v'] },
        { before => { id => 2 }, after => { id => 2, n => 1 }, unchanged => ['v'] },
        { before => { id => 2 }, after => undef },
        { before => undef, after => { id => 3, v => '//8=', n => 0 } }],
    '300 MB of bytea are listed in truncated, and the slot advances');
my $floor = floor_mb();
cmp_ok($mb, '<', $floor + 32, sprintf 'the plugin needs %d MB, the server without the plugin needs %d', $mb, $floor);
my ($more, @raised) = ours('max_value_bytes', '16MB');
is_deeply(\@raised, \@lines, 'the highest max_value_bytes returns the same lines');
cmp_ok($more, '<', $floor + 32, sprintf 'the highest max_value_bytes needs %d MB', $more);
sql('DROP TABLE big');

# Values of equal size are compared completely, and unchanged parts are recognized.
sql(q{CREATE TABLE twins (id int PRIMARY KEY, a text, b text);}
        . q{ALTER TABLE twins REPLICA IDENTITY FULL}
);
make_slots();
sql(<<'SQL');
INSERT INTO twins VALUES (1, repeat('x', 2000000), repeat('y', 70000));
UPDATE twins SET a = repeat('x', 2000000), b = repeat('y', 69999) || 'z';
UPDATE twins SET a = repeat('x', 1999999) || 'z', b = repeat('y', 69999) || 'z';
UPDATE twins SET a = 'z' || repeat('x', 1999999), b = repeat('y', 70000);
ALTER TABLE twins ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL;
UPDATE twins SET a = 'z' || repeat('x', 1999999), b = repeat('y', 69999) || 'z';
UPDATE twins SET a = 'z' || repeat('x', 1999999), b = repeat('y', 70000);
SQL
(undef, @lines) = ours();
is_deeply(
    [map { $_->{changed} } @{ payloads(@lines) }],
    [undef, ['b'], ['a'], ['a', 'b'], ['b'], ['b']],
    'long values of equal size are compared to their end');
sql('DROP TABLE twins');

# Values that fit separately can be too large together, or after escaping.
sql('CREATE TABLE wide (id int PRIMARY KEY, a text, b json, c bytea, d int[], e text)');
make_slots();
sql(<<'SQL');
INSERT INTO wide (id, a) VALUES (1, repeat(E'\x01', 15000000));
INSERT INTO wide (id, b) VALUES (2, ('["' || repeat('é', 7000000) || '"]')::json);
INSERT INTO wide (id, c) VALUES (3, convert_to(repeat('x', 12000000), 'UTF8'));
INSERT INTO wide SELECT 4, repeat('x', 15000000), ('[' || repeat(' ', 15000000) || ']')::json,
    convert_to(repeat('x', 15000000), 'UTF8'), array_agg(i), 'small'
    FROM generate_series(1, 3000000) AS i;
SQL
(undef, @lines) = ours('max_value_bytes', '16MB', 'max_row_bytes', '16MB');
is(scalar @lines, 4, 'each wide row has a line');
my $strict = top() . '/build/strict_lines';
open my $reader, '|-', $strict or die "$strict: $!";
print $reader map { "$_\n" } @lines;
ok(close $reader, 'each line is strict JSON');
like($lines[0], qr/"after":\{"id":1,"a":null,.*"truncated":\["a"\]/,
    'a value that is too long after escaping is replaced by a stub');
like($lines[2], qr/"c":"eHh4/, 'bytea that fits is included');
like(substr($lines[3], -400), qr/"e":"small"\},"truncated":\["c","d"\]/,
    'the longest values of a row that is too long are null');
sql('DROP TABLE wide');

if ($ENV{CLAIRON_LONG})
{
    sql('CREATE TABLE huge (id int PRIMARY KEY, t text, j jsonb, a text[], n int)');
    sql('ALTER TABLE huge REPLICA IDENTITY FULL');
    sql(q{SELECT clairon.watch('huge', 'USER', 't', name => 'refused')});
    make_slots();
    sql(q{INSERT INTO huge (id, t) VALUES (1, repeat('0123456789', 60000000))});
    sql(q{INSERT INTO huge (id, j) SELECT 2, jsonb_agg(repeat('x', 1000))
            FROM generate_series(1, 200000)}
    );
    sql(q{INSERT INTO huge (id, a) SELECT 3, array_agg(repeat('y', 1000))
            FROM generate_series(1, 100000)}
    );
    sql('UPDATE huge SET n = id');
    sql(q{UPDATE huge SET t = t || '!' WHERE id = 1});
    sql(q{UPDATE huge SET t = 'x' || substr(t, 2) WHERE id = 1});
    sql('DELETE FROM huge');
    ($mb, @lines) = ours('max_value_bytes', '16MB');
    my $got = payloads(@lines);
    is_deeply(
        [map { $_->{truncated} } @$got],
        [['t'], ['j'], ['a'], ['t'], ['j'], ['a'], ['t'], ['t'], ['j'], ['a'], ['t']],
        'each change of a huge row lists its omitted columns');
    is_deeply(
        [map { $_->{changed} } @$got[3 .. 7]],
        [['n'], ['n'], ['n'], ['t'], ['t']], 'each change of a huge row lists its changed columns');
    $floor = floor_mb();
    cmp_ok($mb, '<', $floor + 32, sprintf 'the plugin needs %d MB for huge rows, the server without the plugin needs %d', $mb,
        $floor);
    is( sql(q{SELECT count(*) FROM pg_logical_slot_get_changes('ours', NULL, NULL,
            'include_tables', '*')}
        ),
        11,
        'the slot advances after the huge rows');
}

done_testing();
