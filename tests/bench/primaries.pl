# Measures the CPU per notification of one server, of a cluster of one primary, and of a cluster of three primaries.
#
# A store is the bottleneck when one of its servers uses a whole core. This machine may have too few cores for that, so
# the bench measures CPU time and derives the maximum rate of the store from its busiest server.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Measure qw(figure median cpu users_of_shards);
use Targets;
use List::Util qw(max sum);
use Test::More;

use constant SHARDS => 16;
my $rows   = $ENV{BENCH_PRIMARY_ROWS}   // 100_000;
my $rounds = $ENV{BENCH_PRIMARY_ROUNDS} // 3;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id bigserial PRIMARY KEY, owner text NOT NULL, body text NOT NULL);
    SELECT clairon.watch('t', 'USER', 'owner')});
my @options = (options => [ '--auto-aof-rewrite-percentage', 0 ]);
my %stores  = (
    'one server'      => Clairon::Test::store(@options),
    'one primary'     => Clairon::Test::store_cluster(primaries => 1, replicas => 0, shards => SHARDS, @options),
    'three primaries' => Clairon::Test::store_cluster(primaries => 3, replicas => 0, shards => SHARDS, @options));
my @names = ('one server', 'one primary', 'three primaries');
users_of_shards($pg, $stores{'three primaries'});

# Each primary has a third of the shards of users.
my @primaries = $stores{'three primaries'}->alive;
for my $shard (1 .. SHARDS - 1)
{
    $stores{'three primaries'}->move($shard, $primaries[ $shard % 3 ]);
    $stores{'three primaries'}->wait_agreed;
}

# Each store has a feed with a slot. All feeds read the same WAL.
my %feeds = map {
    $_ => Clairon::Test::relay($pg, $stores{$_}, roles => 'feed', conf => { 'feed.slot' => tr/ /_/r, 'store.min_replicas' => 0, 'relay.log_level' => 'info' }) } @names;
$_->stop for values %feeds;

sub servers { my ($store) = @_; return $store->isa('Clairon::Test::StoreCluster') ? $store->alive : $store }

# Returns the CPU per notification of the busiest server, and of all servers, while the feed reads a backlog.
sub measure
{
    my ($store, $feed, $end) = @_;
    my $stored = $store->stored;
    my @before = map { cpu($_) } servers($store);
    $feed->start;
    wait_until('the slot has passed all rows', sub {
        $pg->safe_psql('postgres', "SELECT confirmed_flush_lsn >= '$end' FROM pg_replication_slots WHERE slot_name = '$feed->{settings}{'feed.slot'}'") eq 't' });
    my @used = map { (cpu($_) - shift @before) / $rows } servers($store);
    $feed->stop;
    $store->stored == $stored + $rows or die "rows are missing or duplicated in the store\n";
    return (busiest => max(@used), all => sum(@used));
}

my %seen;
for my $round (1 .. $rounds)
{
    $pg->safe_psql('postgres', qq{INSERT INTO t (owner, body) SELECT name, repeat('x', 600)
        FROM generate_series(1, 100) i JOIN owner ON true LIMIT 1000}) for 1 .. $rows / 1000;
    my $end = $pg->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
    for my $name (@names)
    {
        my %found = measure($stores{$name}, $feeds{$name}, $end);
        push @{ $seen{$name}{$_} }, $found{$_} for keys %found;
    }
}
my %median = map { my $name = $_; $name => { map { $_ => median(@{ $seen{$name}{$_} }) } keys %{ $seen{$name} } } } @names;
figure("$rows notifications of 1 kB for one user each:", 'CPU per notification of the busiest server, of all servers; calculated maximum per second');
figure($_, sprintf '%.1f µs, %.1f µs; %.0f', @{ $median{$_} }{qw(busiest all)}, 1e6 / $median{$_}{busiest}) for @names;
my $ratio = $median{'one primary'}{busiest} / $median{'three primaries'}{busiest};
Targets::record('store: three primaries, by CPU', '> 2.2 times one', sprintf('%.2f', $ratio), $ratio > 2.2);
pass('measured');
done_testing();
