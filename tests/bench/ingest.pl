# Measures how many notifications per second move from WAL into the store, and their latency.
#
# All servers run on this machine. PostgreSQL runs with fsync off, so that the disk does not affect the result.
use strict;
use warnings;

use Clairon::Test qw(top wait_until);
use Targets;
use POSIX ();
use Test::More;
use Time::HiRes qw(time);
use Time::Local qw(timegm);

my $backlog = $ENV{BENCH_ROWS} // 100_000;
my $rounds  = $ENV{BENCH_ROUNDS} // 3;
my $rate    = $ENV{BENCH_RATE} // 1000;
my $seconds = $ENV{BENCH_SECONDS} // 10;
my $STREAM  = 'clairon:stream';

sub figure { note(sprintf "bench: %-60s %s", @_); return }

my $libraries = qx{postgres --describe-config} =~ /^output_plugin_libraries\t/m
  ? "output_plugin_libraries = 'pgoutput, clairon, wal2json'\n" : '';
my $pg = Clairon::Test::postgresql('main', conf => $libraries);
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id bigserial PRIMARY KEY, owner text NOT NULL, body text NOT NULL);
    SELECT clairon.watch('t', 'USER', 'owner');
    CREATE PROCEDURE add_rows(n int, bytes int, each int) LANGUAGE plpgsql AS $$
    BEGIN
        FOR i IN 1 .. n / each LOOP
            INSERT INTO t (owner, body) SELECT 'u' || k % 1000, repeat('x', bytes) FROM generate_series(1, each) k;
            COMMIT;
        END LOOP;
    END $$});
# A rewrite of the append-only file would distort the result of the contender that runs meanwhile.
my $store = Clairon::Test::store(options => [ '--auto-aof-rewrite-percentage', 0 ]);
my $relay = Clairon::Test::relay($pg, $store, roles => 'feed', wait => 0, conf => { 'relay.log_level' => 'info' });
my $peer  = peer_modules();
wait_until('the relay reads its slot', sub { is_read('clairon') });

sub is_read
{
    my ($slot) = @_;
    return $pg->safe_psql('postgres', "SELECT count(*) FROM pg_replication_slots WHERE active AND slot_name = '$slot'");
}

# Returns the folder where npm installed the node pipeline; undef, with a logged reason, if the installation failed.
sub peer_modules
{
    my $folder = Clairon::Test::scratch() . '/peer';
    my $why    = eval { make_slot('peer', 'wal2json'); 1 } ? undef : 'wal2json is not installed';
    mkdir $folder or die "could not make $folder: $!";
    $why //= 'npm cannot install pg-logical-replication and ioredis'
      if !$why && system("cd $folder && npm install --no-audit --no-fund pg-logical-replication ioredis >npm.log 2>&1") != 0;
    drop_slot('peer');
    return "$folder/node_modules" unless $why;
    figure('no node pipeline for comparison:', $why);
    return undef;
}

sub make_slot
{
    my ($slot, $plugin) = @_;
    $pg->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('$slot', '$plugin')");
    return;
}

sub drop_slot
{
    my ($slot) = @_;
    my $drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '$slot' AND NOT active";
    wait_until("slot $slot is dropped", sub {
        $pg->safe_psql('postgres', $drop);
        return !$pg->safe_psql('postgres', "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '$slot'");
    });
    return;
}

sub length_of { return $store->execute('XLEN', $_[0]) }

# Returns the CPU time of a process, in seconds.
sub cpu_of
{
    my ($pid) = @_;
    open my $file, '<', "/proc/$pid/stat" or die "no such process: $pid";
    my @fields = split / /, <$file> =~ s/^.*\) //r;
    return ($fields[11] + $fields[12]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

# Returns the entries per second, from the first entry after `before` to the last entry, by the store's clock.
sub pace_of
{
    my ($stream, $before, $rows) = @_;
    my ($first) = @{ $store->execute('XRANGE', $stream, "($before", '+', 'COUNT', 1) };
    my ($last)  = @{ $store->execute('XREVRANGE', $stream, '+', '-', 'COUNT', 1) };
    my $ms = (split /-/, $last->[0])[0] - (split /-/, $first->[0])[0];
    return 1000 * $rows / ($ms || 1);
}

sub newest_of
{
    my ($stream) = @_;
    my ($last) = @{ $store->execute('XREVRANGE', $stream, '+', '-', 'COUNT', 1) };
    return $last ? $last->[0] : '0-0';
}

# Measures the relay from its start.
sub measure_ours
{
    my ($rows, $end) = @_;
    my ($before, $length) = (newest_of($STREAM), length_of($STREAM));
    $relay->start;
    wait_until("$rows rows are stored", sub { length_of($STREAM) >= $length + $rows });
    length_of($STREAM) == $length + $rows or die "more entries were stored than written\n";
    my $cpu = cpu_of($relay->pid);
    my $pace = pace_of($STREAM, $before, $rows);
    # Without this wait, the relay would read this WAL again at its next start.
    wait_until('the slot is confirmed', sub {
        $pg->safe_psql('postgres',
            "SELECT confirmed_flush_lsn >= '$end' FROM pg_replication_slots WHERE slot_name = 'clairon'") eq 't' });
    $relay->stop;
    # Removes the entries, as after all other contenders, so that each contender writes to memory that the store has
    # used before.
    $store->execute('XTRIM', $STREAM, 'MAXLEN', 1);
    return (ours => $pace, cpu => 1e6 * $cpu / $rows);
}

# Measures the decoder alone, with a client that discards the output.
sub measure_decoder
{
    my ($rows, $end) = @_;
    my $began = time();
    system_or_die('pg_recvlogical', '-d', $pg->connstr('postgres'), '--slot', 'bare', '--start', '--endpos', $end,
        '--no-loop', '-o', 'mode=framed', '-f', '/dev/null');
    my $elapsed = time() - $began;
    drop_slot('bare');
    return (decoder => $rows / $elapsed);
}

# Measures redis-benchmark, which adds the same entries.
sub measure_bare
{
    my ($rows) = @_;
    my ($entry) = @{ $store->execute('XREVRANGE', $STREAM, '+', '-', 'COUNT', 1) };
    my @fields = map { /^[\x21-\x7e]*$/ && length $_ < 20 ? $_ : 'x' x length $_ } @{ $entry->[1] };
    my $output = qx{redis-benchmark -s $store->{socket} -P 128 -c 1 -n $rows -q XADD floor '*' @fields 2>/dev/null};
    $store->execute('DEL', 'floor');
    return $output =~ /([\d.]+) requests per second/ ? (bare => $1) : ();
}

sub measure_peer
{
    my ($rows) = @_;
    return unless $peer;
    system_or_die('node', top() . '/tests/bench/ingest_peer.js', $peer, $pg->host, $pg->port, scalar getpwuid($<),
        'peer', $store->{socket}, 'peer', $rows);
    my $pace = pace_of('peer', '0-0', $rows);
    $store->execute('DEL', 'peer');
    drop_slot('peer');
    return (peer => $pace);
}

# All contenders read the same WAL, which is written before they start.
sub measure_round
{
    my ($rows, $bytes, $each) = @_;
    make_slot('bare', 'clairon');
    make_slot('peer', 'wal2json') if $peer;
    $pg->safe_psql('postgres', "CALL add_rows($rows, $bytes, $each)");
    my $end   = $pg->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
    my %found = (measure_ours($rows, $end), measure_decoder($rows, $end), measure_bare($rows), measure_peer($rows));
    return \%found;
}

sub median { my @sorted = sort { $a <=> $b } @_; return $sorted[ $#sorted / 2 ] }

sub compare
{
    my ($bytes, $rows, $each) = @_;
    my @found = map { measure_round($rows, $bytes, $each) } 1 .. $rounds;
    my %found = map { my $what = $_; $what => median(map { $_->{$what} } @found) } keys %{ $found[0] };
    figure("$bytes B, $each rows per transaction, $rows rows:", sprintf '%d /s, relay CPU %.1f us each', @found{qw(ours cpu)});
    figure('  the decoder alone, its output discarded:', sprintf '%d /s', $found{decoder});
    figure('  bare XADD of the same entries, 128 in flight:',
        $found{bare} ? sprintf('%d /s', $found{bare}) : 'redis-benchmark is not installed');
    my $least = $found{bare} && $found{bare} < $found{decoder} ? $found{bare} : $found{decoder};
    figure('  clairon, relative to the slower of the two (target: at least 0.8):', sprintf '%.2f', $found{ours} / $least);
    my $what = sprintf 'ingest, %d B, %d rows per transaction', $bytes, $each;
    Targets::record("$what, of the slower of decoder and XADD", 'at least 0.8', sprintf('%.2f', $found{ours} / $least),
        $found{ours} / $least >= 0.8, sprintf '%d /s', $found{ours});
    return unless $found{peer};
    Targets::record("$what, times node", 'at least 5', sprintf('%.1f', $found{ours} / $found{peer}),
        $found{ours} / $found{peer} >= 5);
    figure('  node: wal2json, pg-logical-replication, ioredis:', sprintf '%d /s', $found{peer});
    figure('  clairon, relative to node (target: at least 5):', sprintf '%.1f', $found{ours} / $found{peer});
    return;
}

# ---- latency from the commit

# Blocks on the stream until the final entry; returns the delays in ms, sorted.
sub read_delays
{
    my ($at, $file) = @_;
    my @delays;
    while (1)
    {
        my $reply = $store->execute('XREAD', 'BLOCK', 0, 'STREAMS', $STREAM, $at);
        my $now = 1000 * time();
        for my $entry (@{ $reply->[0][1] })
        {
            $at = $entry->[0];
            my %field = @{ $entry->[1] };
            next if $field{data} && push @delays, $now - committed_ms($field{data});
            open my $out, '>', $file or die $!;
            print {$out} join "\n", sort { $a <=> $b } @delays;
            close $out;
            return;
        }
    }
}

sub committed_ms
{
    my ($data) = @_;
    $data =~ /"timestamp":"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+\.\d+)Z"/ or die 'no timestamp';
    return 1000 * (timegm(int $6, $5, $4, $3, $2 - 1, $1) + $6 - int $6);
}

sub measure_delay
{
    my ($before, $at) = (length_of($STREAM), newest_of($STREAM));
    my ($script, $file) = map { Clairon::Test::scratch() . "/$_" } qw(insert.sql delays);
    $relay->start;
    wait_until('the relay reads its slot', sub { is_read('clairon') });
    my $rows_before = $pg->safe_psql('postgres', 'SELECT count(*) FROM t');
    my $reader = fork() // die "could not fork: $!";
    if (!$reader)
    {
        read_delays($at, $file);
        POSIX::_exit(0);
    }
    open my $out, '>', $script or die $!;
    print {$out} "INSERT INTO t (owner, body) VALUES ('u1', repeat('x', 100));\n";
    close $out;
    system_or_die('pgbench', '-n', '-R', $rate, '-T', $seconds, '-f', $script, '-h', $pg->host, '-p',
        $pg->port, '-U', scalar getpwuid($<), 'postgres');
    my $written = $pg->safe_psql('postgres', 'SELECT count(*) FROM t') - $rows_before;
    wait_until('the last row is stored', sub { length_of($STREAM) == $before + $written });
    $store->execute('XADD', $STREAM, '*', 'end', 1);
    waitpid $reader, 0;
    my @delay = split /\n/, do { local (@ARGV, $/) = ($file); <> };
    figure(sprintf('commit to a blocked XREAD at %d per second, ms (p50 p99 max):', $rate),
        join '  ', map { sprintf '%.2f', $delay[ int($_ * $#delay) ] } 0.5, 0.99, 1);
    is(scalar @delay, $written, 'every row was measured');
    return;
}

$relay->stop;
compare(200,  $backlog,            1000);
compare(1000, $backlog,            1000);
compare(200,  int($backlog / 5),   1);
measure_delay();
done_testing();

sub system_or_die
{
    system(@_) == 0 or die "$_[0] failed\n";
    return;
}
