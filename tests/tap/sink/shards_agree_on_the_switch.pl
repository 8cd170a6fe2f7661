# Tests that all shards follow shard 0 when they differ about whether the webhook is switched off: a relay has died while it
# switched them.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Endpoint;
use Clairon::Test::Receipts;
use Test::More;

$ENV{CLAIRON_TEST_SHARDS} = 4;
my $pg       = Clairon::Test::postgresql('main');
my $store    = Clairon::Test::store();
my $receipts = Clairon::Test::Receipts->new($pg, $store);
my $endpoint = Clairon::Test::Endpoint->launch;

my @SINKS = $store->keys('sinks');
sub off { return join '', map { $store->execute('HEXISTS', $_, 'off:webhook') } @SINKS }
sub wait_received { my @ids = @_; return wait_until('the endpoint has received the receipts', sub { my %had = map { $_ => 1 } $endpoint->received; !grep { !$had{$_} } @ids }) }

# A relay died while it switched the webhook on.
$store->execute('HSET', $_, 'off:webhook', 1) for @SINKS[ 2, 3 ];
my @waiting = $receipts->add_many(2);
my %conf = ($endpoint->settings, 'webhook.outcomes' => 'acked');
my @relays = map { Clairon::Test::relay($pg, $store, conf => \%conf) } 1 .. 2;
wait_received(@waiting);
wait_until('the other shards are switched on', sub { off() eq '0000' });
is($_->metric('clairon_sink_off{sink="webhook"}'), 0, 'a shard other than shard 0 does not switch the sink off') for @relays;

# While it switched the webhook off.
$store->execute('HSET', $SINKS[0], 'off:webhook', 1);
wait_until('the other shards are switched off', sub { off() eq '1111' });
my @later = $receipts->add_many(2);
is($_->metric('clairon_sink_off{sink="webhook"}'), 1, 'shard 0 switches the sink off') for @relays;

# A relay that starts does not switch on what is off.
$relays[0]->restart;
wait_until('it knows', sub { ($relays[0]->metric('clairon_sink_off{sink="webhook"}') // 0) == 1 });
is(off(), '1111', 'after a restart it remains off in all shards');
kill HUP => $relays[1]->pid;
wait_received(@later);
wait_until('it is on in all shards', sub { off() eq '0000' });
done_testing();
