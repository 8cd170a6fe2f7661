# How many notifications a second go from WAL into the store, and how long after the commit?
#
# Real servers, all on this machine; PostgreSQL runs with fsync off, so that the
# path is measured and not the disk.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use POSIX ();
use Test::More;
use Time::HiRes qw(time);
use Time::Local qw(timegm);

my $backlog = $ENV{BENCH_ROWS} // 100_000;
my $rate    = $ENV{BENCH_RATE} // 500;
my $seconds = $ENV{BENCH_SECONDS} // 10;

sub figure { note(sprintf "bench: %-52s %s", @_); return }

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id bigserial PRIMARY KEY, owner text NOT NULL, body text NOT NULL);
    SELECT clairon.watch('t', 'USER', 'owner');
    CREATE PROCEDURE single_rows(n int) LANGUAGE plpgsql AS $$
    BEGIN
        FOR i IN 1 .. n LOOP
            INSERT INTO t (owner, body) VALUES ('u' || i % 1000, repeat('x', 100));
            COMMIT;
        END LOOP;
    END $$});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'relay.log_level' => 'info' });

sub stored { return $store->ask('XLEN', 'clairon:stream') }

# CPU time of a process so far, in seconds.
sub cpu_of
{
    my ($pid) = @_;
    open my $file, '<', "/proc/$pid/stat" or die "no such process: $pid";
    my @fields = split / /, <$file> =~ s/^.*\) //r;
    return ($fields[11] + $fields[12]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

# What was written while no relay ran, from its start to the last row in the store. Returns the rate.
sub catch_up
{
    my ($what, $rows, $sql) = @_;
    $relay->stop;
    my $before = stored();
    $pg->safe_psql('postgres', $sql);
    my $began = time();
    $relay->start;
    wait_until("$rows rows are stored", sub { stored() >= $before + $rows });
    my $took = time() - $began;
    stored() == $before + $rows or die "more was stored than was written\n";
    figure($what, sprintf '%d /s  (%d in %.2f s, relay CPU %.1f us each)', $rows / $took, $rows, $took,
        1e6 * cpu_of($relay->pid) / $rows);
    return $rows / $took;
}

# The same entries, added by redis-benchmark without anything around them.
sub bare_rate
{
    my ($rows) = @_;
    my ($entry) = @{ $store->ask('XREVRANGE', 'clairon:stream', '+', '-', 'COUNT', 1) };
    my @fields = map { /^[\x21-\x7e]*$/ && length $_ < 20 ? $_ : 'x' x length $_ } @{ $entry->[1] };
    my $told = qx{redis-benchmark -s $store->{socket} -P 128 -c 1 -n $rows -q XADD floor '*' @fields 2>/dev/null};
    $store->ask('DEL', 'floor');
    return $told =~ /([\d.]+) requests per second/ ? $1 : undef;
}

# What the decoder gives to a reader that only throws it away.
sub decoder_rate
{
    my ($rows, $sql) = @_;
    $pg->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('bare', 'clairon')});
    $pg->safe_psql('postgres', $sql);
    my $end   = $pg->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
    my $began = time();
    system_or_die('pg_recvlogical', '-d', $pg->connstr('postgres'), '--slot', 'bare', '--start', '--endpos', $end,
        '--no-loop', '-o', 'mode=framed', '-f', '/dev/null');
    my $took = time() - $began;
    $pg->safe_psql('postgres', q{SELECT pg_drop_replication_slot('bare')});
    return $rows / $took;
}

sub compare
{
    my ($bytes, $rows) = @_;
    my $sql = "INSERT INTO t (owner, body) SELECT 'u' || i % 1000, repeat('x', $bytes)"
      . " FROM generate_series(1, $rows) i";
    my $ours    = catch_up("notifications of $bytes B stored, one transaction:", $rows, $sql);
    my $bare    = bare_rate($rows);
    my $before = stored();
    $relay->stop;
    my $decoder = decoder_rate($rows, $sql);
    $relay->start;
    wait_until('the relay has those too', sub { stored() >= $before + $rows });
    figure('  the decoder alone, to a reader that throws it away:', sprintf '%d /s', $decoder);
    figure('  bare XADD of the same entries, 128 in flight:', $bare ? sprintf('%d /s', $bare) : 'no redis-benchmark here');
    my $least = $bare && $bare < $decoder ? $bare : $decoder;
    figure('  ours, of the smaller of the two:', sprintf '%.2f', $ours / $least);
    return;
}

compare($_, $backlog) for 200, 1000;
my $singles = int($backlog / 5);
catch_up('notifications stored, one transaction each:', $singles, "CALL single_rows($singles)");

# At a steady pace: the entry's id is the store's clock, the timestamp PostgreSQL's.
sub committed_ms
{
    my ($n) = @_;
    $n->{metadata}{timestamp} =~ /^(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+\.\d+)Z$/ or die 'no timestamp';
    return 1000 * (timegm(int $6, $5, $4, $3, $2 - 1, $1) + $6 - int $6);
}

$relay->wait_ready;
my $before = stored();
my $script = Clairon::Test::scratch() . '/insert.sql';
open my $file, '>', $script or die $!;
print {$file} "INSERT INTO t (owner, body) VALUES ('u1', repeat('x', 100));\n";
close $file;
system_or_die('pgbench', '-n', '-R', $rate, '-T', $seconds, '-f', $script, '-h', $pg->host, '-p',
    $pg->port, '-U', scalar getpwuid($<), 'postgres');
my $written = $pg->safe_psql('postgres', 'SELECT count(*) FROM t') - $before;
wait_until('the last row is stored', sub { stored() == $before + $written });
my $rows  = $store->ask('XREVRANGE', 'clairon:stream', '+', '-', 'COUNT', $written);
my @delay = sort { $a <=> $b } map {
    my %field = @{ $_->[1] };
    (split /-/, $_->[0])[0] - committed_ms(JSON::decode_json($field{data}))
} @$rows;
# The store's clock counts whole milliseconds, so less than one is all that can be said.
figure(sprintf('commit to stored at %d a second, ms (p50 p99 max):', $rate), join '  ',
    map { $_ < 1 ? '< 1' : sprintf '%.1f', $_ } map { $delay[ int($_ * $#delay) ] } 0.5, 0.99, 1);
is(scalar @delay, $written, 'every row was measured');
done_testing();

sub system_or_die
{
    system(@_) == 0 or die "$_[0] failed\n";
    return;
}
