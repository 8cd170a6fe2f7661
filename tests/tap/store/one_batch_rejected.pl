# Tests a store that rejects one batch and accepts later batches: no row is missing.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use POSIX ();
use Test::More;

my $ROWS   = 2000;            # rows of at least 800 bytes, so that one burst has several batches
my $READ   = 16 * 1024;       # bytes that the store reads from a connection at a time
my $ROUNDS = 20;              # number of reads during which the store is full, about one batch
my $ATTEMPTS = 10;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, filler text);
    SELECT clairon.watch('t', 'ALL')});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (0, '')});
wait_until('the first row is stored', sub { $store->entries == 1 });

sub command { return '*' . @_ . "\r\n" . join '', map { '$' . length . "\r\n$_\r\n" } @_ }

# While the store is stopped, the relay fills its outbound queue to the store, and the test queues the commands that set and clear the
# memory limit.
sub reject_one_batch
{
    my ($first, $last) = @_;
    my $link   = $store->link;
    my $handed = $relay->metric('clairon_feed_frames_total');
    my $before = $handed;
    $store->pause;
    $pg->safe_psql('postgres', "INSERT INTO t SELECT i, repeat('x', 800) FROM generate_series($first, $last) i");
    # Each request for a metric causes a loop iteration of the relay, in which the relay can read more.
    wait_until('a slow store causes backpressure on the relay and on PostgreSQL', sub {
        my $waits_for = $pg->safe_psql('postgres', 'SELECT wait_event FROM pg_stat_activity JOIN pg_stat_replication USING (pid)');
        my $frames    = $relay->metric('clairon_feed_frames_total');
        my $more      = $frames > $handed;
        $handed = $frames;
        return $waits_for eq 'WalSenderWriteData' && $frames > $before + 500 && !$more;
    });
    my $bytes = command(qw(CONFIG SET maxmemory 1)) . command('ECHO', 'x' x ($READ - 30)) x $ROUNDS
      . command(qw(CONFIG SET maxmemory 0));
    my $pid = fork // die "could not fork: $!";
    if ($pid == 0) { print {$link} $bytes; $link->flush; kill CONT => $store->{pid}; POSIX::_exit(0) }
    kill CONT => $store->{pid};
    Clairon::Test::Store::read_reply($link) for 1 .. $ROUNDS + 2;
    waitpid $pid, 0;
    wait_until('the last row is stored', sub {
        my $entry = $store->execute('XREVRANGE', $store->shared('stream'), '+', '-', 'COUNT', 1)->[0];
        return "@{ $entry->[1] }" =~ /"after":\{"id":$last\b/;
    });
}

# The scheduling of the store determines whether a complete batch arrives while the store is full.
my $sent = 0;
for (1 .. $ATTEMPTS)
{
    reject_one_batch($sent + 1, $sent + $ROWS);
    $sent += $ROWS;
    last if $relay->metric('clairon_store_errors_total') > 0;
}
my @ids = map { $_->{data} =~ /"after":\{"id":(\d+)/ } $store->entries;
is_deeply(\@ids, [ 0 .. $sent ], 'each row is stored once, in order');
cmp_ok($relay->metric('clairon_store_errors_total'), '>', 0, 'the store has rejected some batches');

done_testing();
