# Measures the CPU of a cluster per notification with eight relays: with the users of each shard on one relay, and with
# users distributed over all relays.
#
# All servers run on this machine. No client receives a notification, so the cost of fan-out is not included.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Measure qw(figure median cpu users_of_shards);
use Targets;
use Test::More;
use Time::HiRes qw(time);

use constant { RELAYS => 8, SHARDS => 16, IDLE_S => 3 };
my $rows   = $ENV{BENCH_RELAY_ROWS}   // 20_000;
my $rounds = $ENV{BENCH_RELAY_ROUNDS} // 3;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id bigserial PRIMARY KEY, owner text NOT NULL, body text NOT NULL);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $cluster = Clairon::Test::store_cluster(replicas => 0, shards => SHARDS, options => [ '--auto-aof-rewrite-percentage', 0 ]);
my %conf    = ('store.min_replicas' => 0, 'relay.log_level' => 'info');
my $feed    = Clairon::Test::relay($pg, $cluster, roles => 'feed', conf => {%conf});

# Only the first user of each shard is connected. The rows address the other users.
my %users = users_of_shards($pg, $cluster);

# Returns the CPU of the store and of the relays per notification, from before the rows are written until all gates have
# read them, and the CPU of the idle store.
sub measure
{
    my ($relays, $is_routed) = @_;
    my @gates = map { Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => {%conf}) } 1 .. $relays;
    my @clients;
    for my $shard (1 .. SHARDS - 1)
    {
        push @clients, map { $_->client($users{$shard}[0]) } $relays == 0 ? () : $is_routed ? $gates[ $shard % $relays ] : @gates;
    }
    my $followed = 0;
    wait_until('the gates read the shards of their users', sub { $followed = 0; $followed += $_->metric('clairon_store_followed_shards') for @gates; return $followed == @clients + @gates });
    my ($since, $idle) = (time, cpu($cluster->alive));
    wait_until('some seconds have passed', sub { time >= $since + IDLE_S });
    $idle = (cpu($cluster->alive) - $idle) / 1e4 / (time - $since);    # percent of a core
    my @before = map { $_->metric('clairon_hub_notifications_total') } @gates;
    my ($of_store, $of_gates) = (cpu($cluster->alive), cpu(@gates));
    my $stored = $cluster->stored;
    $pg->safe_psql('postgres', qq{INSERT INTO t (owner, body) SELECT name, repeat('x', 600)
        FROM generate_series(1, 100) i JOIN owner ON true LIMIT 1000}) for 1 .. $rows / 1000;
    wait_until('all notifications are stored', sub { $cluster->stored == $stored + $rows });
    my $expected = $is_routed ? $rows : $rows * $relays;
    wait_until('all notifications are read', sub {
        my $read = 0;
        $read += $gates[$_]->metric('clairon_hub_notifications_total') - $before[$_] for 0 .. $#gates;
        return $read >= $expected;
    });
    my @used = map { $_ / $rows } cpu($cluster->alive) - $of_store, $relays == 0 ? 0 : cpu(@gates) - $of_gates;
    $_->close for @clients;
    $_->stop  for @gates;
    return (@used, $idle);
}

my %seen;
for my $round (1 .. $rounds)
{
    for my $case ([ 'no relay reads', 0, 0 ], [ 'one relay', 1, 0 ], [ 'users anywhere', RELAYS, 0 ], [ 'users of a shard on one relay', RELAYS, 1 ])
    {
        my ($name, @options) = @$case;
        my %used;
        @used{qw(store gates idle)} = measure(@options);
        push @{ $seen{$name}{$_} }, $used{$_} for keys %used;
    }
}
figure("$rows notifications of 1 kB, three primaries, " . RELAYS . ' relays:', 'CPU per notification of the store, of all relays; of the idle store');
my %median = map { my $name = $_; $name => { map { $_ => median(@{ $seen{$name}{$_} }) } keys %{ $seen{$name} } } } keys %seen;
figure($_, sprintf '%.1f µs, %.1f µs; %.1f %%', @{ $median{$_} }{qw(store gates idle)}) for 'no relay reads', 'one relay', 'users anywhere', 'users of a shard on one relay';
my $writing = $median{'no relay reads'}{store};
my $ratio = ($median{'users of a shard on one relay'}{store} - $writing) / ($median{'users anywhere'}{store} - $writing);
Targets::record('relays: reading, routed by shard', '< 0.40 of anywhere', sprintf('%.2f', $ratio), $ratio < 0.4);
pass('measured');
done_testing();
