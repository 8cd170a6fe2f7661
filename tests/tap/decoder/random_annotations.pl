# Tests that random calls of clairon.annotate, in random subtransactions that are released or rolled back, apply to each
# row as a model predicts. Small and large transactions are decoded at their commit and streamed.
#
# CLAIRON_ANNOTATIONS_SEED (a number or "random") and CLAIRON_ANNOTATIONS_TRANSACTIONS set the workload.
use strict;
use warnings;

use Clairon::Test qw(amount);
use JSON ();
use Test::More;

my $seed = $ENV{CLAIRON_ANNOTATIONS_SEED} // 128843152;
$seed = int rand 2**31 if $seed eq 'random';
my $transactions = $ENV{CLAIRON_ANNOTATIONS_TRANSACTIONS} // amount(150, 1500);
diag("CLAIRON_ANNOTATIONS_SEED=$seed CLAIRON_ANNOTATIONS_TRANSACTIONS=$transactions");
srand $seed;

my $pg = Clairon::Test::postgresql('main', conf => "autovacuum = off\nlogical_decoding_work_mem = 64kB");

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# ---- the model: a stack of open subtransactions, each with its rows and the annotation at its start

my ($script, $next, $annotation, @levels, @expected, %count) = ('', 0, undef);

sub annotate
{
    $next++;
    my ($emitter, $parent, $data) = map { rand() < 0.7 } 1 .. 3;
    $annotation = {
        emitter => $emitter ? "e$next" : 'clairon',
        traceparent => $parent ? sprintf('00-4bf92f3577b34da6a3ce929d0e0e4736-%016x-01', $next) : undef,
        data => $data ? { n => 0 + $next } : undef };
    $script .= sprintf "SELECT clairon.annotate(%s, %s, %s);\n", $emitter ? "'e$next'" : 'NULL',
        $parent ? "'$annotation->{traceparent}'" : 'NULL', $data ? qq{'{"n": $next}'} : 'NULL';
    return;
}

sub insert
{
    my ($rows) = @_;
    my $first = $next + 1;
    $next += $rows;
    $script .= "INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series($first, $next) AS n;\n";
    push @{ $levels[-1]{rows} },
        map { { n => $_, emitter => 'clairon', traceparent => undef, data => undef, %{ $annotation // {} } } } $first .. $next;
    return;
}

sub begin_level
{
    my ($command) = @_;
    $script .= "$command;\n";
    push @levels, { rows => [], annotation => $annotation };
    return;
}

sub release
{
    my $done = pop @levels;
    $script .= 'RELEASE s' . @levels . ";\n";
    push @{ $levels[-1]{rows} }, @{ $done->{rows} };
    return;
}

# The savepoint remains, and the transaction may call annotate again after it.
sub roll_back
{
    my $depth = 1 + int rand $#levels;
    splice @levels, $depth + 1;
    $script .= "ROLLBACK TO s$depth;\n";
    $levels[-1]{rows} = [];
    $annotation = $levels[-1]{annotation};
    return;
}

sub step
{
    my ($rows) = @_;
    my $dice = rand;
    if    ($dice < 0.35)                      { insert(1 + int rand $rows); $count{insert}++ }
    elsif ($dice < 0.5)                       { annotate(); $count{annotate}++ }
    elsif ($dice < 0.55)                      { $script .= "SELECT pg_logical_emit_message(true, 'other', '');\n"; $count{message}++ }
    elsif ($dice < 0.75 && @levels < 6)       { begin_level('SAVEPOINT s' . @levels); $count{savepoint}++ }
    elsif ($dice < 0.85 && @levels > 1)       { release(); $count{release}++ }
    elsif (@levels > 1)                       { roll_back(); $count{rollback}++ }
    return;
}

sub transaction
{
    my $rows = rand() < 0.2 ? 400 : 3;
    undef $annotation;
    begin_level('BEGIN');
    step($rows) for 1 .. 4 + int rand 30;
    release() while @levels > 1;
    my $done = pop @levels;
    my $is_committed = rand() < 0.9;
    $script .= ($is_committed ? 'COMMIT' : 'ROLLBACK') . ";\n";
    push @expected, @{ $done->{rows} } if $is_committed;
    return;
}

sql(q{CREATE TABLE t (n int PRIMARY KEY, v text)});
sql(q{SELECT clairon.watch('t', 'ALL', columns => '{n}')});
sql(q{SELECT pg_create_logical_replication_slot('slot', 'clairon')});
transaction() for 1 .. $transactions;
sql($script);
note(join ', ', map { "$_: $count{$_}" } sort keys %count);

# ---- the comparison

my $json = JSON->new->canonical;
my %ids;
for my $streaming ('off', 'on')
{
    sql(q{SELECT pg_stat_reset_replication_slot('slot')});
    my @lines = map { $json->decode($_) } split /\n/,
        sql("SELECT data FROM pg_logical_slot_peek_changes('slot', NULL, NULL, 'streaming', '$streaming')");
    my @read = map {
        my $metadata = $_->{metadata};
        { n => $_->{payload}{after}{n}, map { $_ => $metadata->{$_} } qw(emitter traceparent data) }
    } @lines;
    is(scalar @read, scalar @expected, "streaming $streaming: each committed row is sent");
    my @wrong = grep { $json->encode($read[$_] // {}) ne $json->encode($expected[$_]) } 0 .. $#expected;
    is(scalar @wrong, 0, "streaming $streaming: each row has the annotation that the model predicts")
        or diag('read ' . $json->encode($read[ $wrong[0] ] // {}) . ', expected ' . $json->encode($expected[ $wrong[0] ]));
    $ids{$streaming} = join ' ', map { $_->{metadata}{id} } @lines;
    my $streamed = sql(q{SELECT stream_txns FROM pg_stat_replication_slots WHERE slot_name = 'slot'});
    ok($streaming eq 'off' ? $streamed == 0 : $streamed > 0, "streaming $streaming: $streamed transactions are streamed");
}

ok($ids{on} eq $ids{off}, 'a row has the same id with and without streaming');

done_testing();
