# Tests that the plugin decodes a random workload to the same changes as test_decoding, always with the same ids.
#
# CLAIRON_DIFF_SEED (a number or "random") and CLAIRON_DIFF_TRANSACTIONS (500; 4000 in the long form) set the workload.
use strict;
use warnings;

use Clairon::Test qw(scratch amount);
use Clairon::Test::Differential::Oracle;
use Clairon::Test::Differential::Values;
use Clairon::Test::Differential::Workload;
use PostgreSQL::Test::Utils qw(run_log slurp_file);
use Test::More;

my $seed = $ENV{CLAIRON_DIFF_SEED} // 20250305;
$seed = int rand 2**31 if $seed eq 'random';
my $transactions = $ENV{CLAIRON_DIFF_TRANSACTIONS} // amount(500, 4000);
diag("CLAIRON_DIFF_SEED=$seed CLAIRON_DIFF_TRANSACTIONS=$transactions");
my $folder = scratch();
srand($seed);
my $values = Clairon::Test::Differential::Values->new;
my $work =
    Clairon::Test::Differential::Workload->new(values => $values, transactions => $transactions,
    folder => $folder);
$work->write("$folder/work.sql");

my $may_wal2json =
      qx{postgres --describe-config} =~ /^output_plugin_libraries\t/m
    ? "output_plugin_libraries = 'test_decoding, wal2json, clairon'"
    : '';
my $pg = Clairon::Test::postgresql('main', conf => <<"CONF");
$may_wal2json
max_prepared_transactions = 10
logical_decoding_work_mem = 64kB
autovacuum = off
CONF
my $connection = $pg->connstr('postgres');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

sub script
{
    my ($path, @more) = @_;
    return run_log(
        [   'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', @more, '-d', $connection, '-f', $path,
            '-o', '/dev/null']);
}

# Returns the rows of a query whose columns are all bytea, with the plugin's settings. With a small
# logical_decoding_work_mem, test_decoding of PostgreSQL 18 crashes after a rollback of a large transaction.
sub rows_of_bytes
{
    my ($query) = @_;
    open my $file, '>', "$folder/query.sql" or die "query.sql: $!";
    print $file map {"SET $_;\n"} "timezone = 'UTC'", "datestyle = 'ISO, MDY'",
        "intervalstyle = 'iso_8601'",
        'extra_float_digits = 1', "lc_monetary = 'C'", "bytea_output = 'hex'",
        "xmlbinary = 'base64'", 'search_path = pg_catalog', "logical_decoding_work_mem = '1GB'";
    print $file "COPY ($query) TO '$folder/rows';\n";
    close $file or die "query.sql: $!";
    script("$folder/query.sql") or die 'query failed';
    open my $lines, '<', "$folder/rows" or die "rows: $!";
    return map {
        chomp;
        [map { pack 'H*', substr $_, 3 } split /\t/]
    } <$lines>;
}

# Returns all output of a slot, read through a walsender.
sub receive
{
    my ($slot, @options) = @_;
    my $end = sql('SELECT pg_current_wal_flush_lsn()');
    my @all = ('include_tables=*.*', @options);
    ok( run_log([
            'pg_recvlogical', '-d', $connection, '--slot', $slot, '--start', '--no-loop',
            '--endpos', $end,
            '-f', "$folder/$slot", map { ('-o', $_) } @all]),
        "$slot is read");
    return slurp_file("$folder/$slot");
}

# Returns [position, JSON] for each notification frame; pg_recvlogical adds a line feed after each CopyData message.
sub notifications_of_frames
{
    my ($bytes) = @_;
    my @notifications;
    my $at = 0;
    while ($at < length $bytes)
    {
        $at++, next if substr($bytes, $at, 1) eq "\n";
        my ($length, $kind) = unpack 'Na', substr $bytes, $at, 5;
        if ($kind eq 'N')
        {
            my ($audience, $topic, $targets, $rule) = unpack 'n n N x20 n', substr $bytes, $at + 64, 30;
            my $head = 104 + $audience + $topic + $rule + $targets;
            push @notifications,
                [substr($bytes, $at + 8, 16), substr($bytes, $at + $head, $length - $head)];
        }
        $at += $length;
    }
    return @notifications;
}

# Reports the first positions at which two lists differ, with their context.
sub compare
{
    my ($what, $lines, $expected, $name) = @_;
    my $bad = 0;
    is(scalar @$lines, scalar @$expected, "$what returns the same number of changes");
    for my $i (0 .. ($#$lines < $#$expected ? $#$lines : $#$expected))
    {
        my ($is, $should) = ($lines->[$i], $expected->[$i]);
        next if $is eq $should;
        my $at = 0;
        $at++ while substr($is, $at, 1) eq substr($should, $at, 1);
        $at = $at > 150 ? $at - 150 : 0;
        diag("$what, number $i" . $name->($i) . ", CLAIRON_DIFF_SEED=$seed");
        diag(     '  written:  ..'
                . substr($is, $at, 600)
                . "\n  expected: .."
                . substr($should, $at, 600));
        last if ++$bad == 3;
    }
    ok(!$bad, "$what returns the same changes");
    return;
}

my $id = qr/[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/;

sub ids
{
    return map { /^\s*\{\s*"metadata":\s*\{\s*"id":\s*"($id)"/ ? $1 : 'none' } @_;
}

# ---- the workload

open my $setup, '>', "$folder/setup.sql" or die "setup.sql: $!";
print $setup $work->setup_sql;
close $setup or die "setup.sql: $!";
ok(script("$folder/setup.sql"), 'the types are created');
my %plugins = (text => 'clairon', framed => 'clairon', again => 'clairon', stubs => 'clairon',
    blocks => 'clairon', peer => 'test_decoding');
sql("SELECT pg_create_logical_replication_slot('$_', '$plugins{$_}')") for sort keys %plugins;
my ($no_wal2json) =
    $pg->psql('postgres', "SELECT pg_create_logical_replication_slot('wal2json', 'wal2json')",
    on_error_stop => 1);
ok(script("$folder/work.sql", '-v', "connection=$connection"), "$transactions transactions are executed")
    or die 'the workload failed';

# ---- the output of test_decoding and of the plugin

my @expected;
my $oracle = Clairon::Test::Differential::Oracle->new(values => $values, prefix => 'srv');
push @expected, $oracle->read($_->[0])
    for rows_of_bytes(
    "SELECT convert_to(data, 'UTF8') FROM pg_logical_slot_get_changes('peer', NULL, NULL,"
        . " 'include-timestamp', 'on')"
    );
my @lines = split /\n/, receive('text', 'topic_prefix=srv');
my @ids = ids(@lines);
compare(
    'text', [map {s/^\{"metadata":\{"id":"$id//r} @lines], [map { $_->{line} } @expected],
    sub {", transaction $expected[$_[0]]{xid}"});
my %distinct = map { $_ => 1 } @ids;
is(scalar keys %distinct, scalar @lines, 'each notification has a distinct id');
note(join ', ', map {"$oracle->{count}{$_} x $_"} sort keys %{ $oracle->{count} });

is(Clairon::Test::strict_faults("$folder/text"), '', 'a strict JSON parser accepts every line');

# ---- other read methods

my $by_number = sub {''};
my @framed = notifications_of_frames(receive('framed', 'mode=framed', 'topic_prefix=srv'));
compare('framed', [map { $_->[1] } @framed], \@lines, $by_number);
is(scalar(grep { $framed[$_ - 1][0] ge $framed[$_][0] } 1 .. $#framed), 0, 'positions increase strictly');
my @again =
    map { notifications_of_frames($_->[0]) }
    rows_of_bytes(
    "SELECT data FROM pg_logical_slot_get_binary_changes('again', NULL, NULL,"
        . " 'mode', 'framed', 'topic_prefix', 'srv', 'include_tables', '*.*', 'streaming', 'off')"
    );
compare('a read by SQL without streaming',
    [map { join '', @$_ } @again], [map { join '', @$_ } @framed], $by_number);
is( sql("SELECT string_agg(slot_name, ' ' ORDER BY slot_name) FROM pg_stat_replication_slots"
            . " WHERE stream_txns > 0 AND slot_name IN ('again', 'framed')"
    ),
    'framed',
    'only the slots with streaming are streamed');

# PostgreSQL 16 and later can stream each change in a separate block.
SKIP:
{
    my $setting = 'debug_logical_replication_streaming';
    skip "PostgreSQL 15 has no $setting", 3
        if sql("SELECT count(*) FROM pg_settings WHERE name = '$setting'") == 0;
    local $ENV{PGOPTIONS} = "-c $setting=immediate";
    my @blocks = notifications_of_frames(receive('blocks', 'mode=framed', 'topic_prefix=srv'));
    compare('a read in blocks', [map { join '', @$_ } @blocks], [map { join '', @$_ } @framed], $by_number);
}
my @stubs = split /\n/, receive('stubs', 'max_value_bytes=100', 'numeric=number', 'topic_prefix=');
compare('a read with other options', [ids(@stubs)], \@ids, $by_number);
is(Clairon::Test::strict_faults("$folder/stubs"), '', 'a strict JSON parser also accepts the stubs');

# wal2json omits changes without an old row, so only the other changes are compared.
SKIP:
{
    skip 'wal2json is not installed', 2 if $no_wal2json;
    my @peer = map {
        $_->[0] =~
            /^\{"action":"([IUD])","schema":("(?:[^"\\]|\\.)*+"),"table":("(?:[^"\\]|\\.)*+")/
            ? "$1 $2 $3"
            : ()
    } rows_of_bytes(
        "SELECT convert_to(data, 'UTF8') FROM pg_logical_slot_get_changes('wal2json', NULL, NULL,"
            . " 'format-version', '2', 'filter-tables', 'clairon.*')"
    );
    compare('wal2json', [map { $_->{wal2json} // () } @expected], \@peer, $by_number);
}

# ---- the final contents of the tables

my %as_ours = (
    'numeric' => sub { $_[0] =~ /^"/ ? $_[0] : "\"$_[0]\"" },
    'bigint' => sub { $values->json('bigint', $_[0]) },
    'bytea' => sub { $values->json('bytea', substr $_[0] =~ s/\\\\/\\/r, 1, -1) },
    'json' => sub { $values->json('json', $_[0]) },
    'jsonb' => sub { $values->json('json', $_[0]) },
    'timestamp with time zone' => sub { $_[0] =~ s/\+00:00/Z/r });

# row_to_json formats values of these types differently: as strings, or as objects.
my $not_the_same =
    qr/^(?:public\.(?:row_|hstore)|(?:int2|oid)vector
        |(?:numeric|bigint|bytea|jsonb|timestamp\ with\ time\ zone)\[\])/x;
my ($compared, @wrong) = (0);
my $cells = join ', ', map {"convert_to($_, 'UTF8')"} qw(relation id name type value);
for my $cell (rows_of_bytes("SELECT $cells FROM work.contents()"))
{
    my ($relation, $row, $name, $is, $value) = @$cell;
    my $known = $oracle->{last}{$relation}{$row};
    push @wrong, "no notification of row $row of $relation" if !$known;
    my ($type, $ours) = @{ $known->{$name} // next };
    next if $type ne $is || $type =~ $not_the_same;    # the column's type was changed later
    $value = $as_ours{$type}->($value) if $as_ours{$type} && $value ne 'null';
    $compared++;
    push @wrong, "$type $ours in the last notification, $value in the table" if $value ne $ours;
}
is(scalar @wrong, 0, 'the tables contain the values of the last notifications')
    or diag(map {"  $_\n"} @wrong[0 .. ($#wrong > 5 ? 5 : $#wrong)]);
cmp_ok($compared, '>', $transactions / 4, 'enough values are compared');

done_testing();
