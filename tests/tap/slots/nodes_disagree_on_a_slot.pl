# Tests a relay while two nodes each report that the other node has the slot of a shard.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $SHARD   = 2;
my $cluster = Clairon::Test::store_cluster(replicas => 0, shards => 3);
my $pg      = Clairon::Test::postgresql('main');
my $from    = $cluster->primary_of($SHARD);
my ($to)    = grep { $_ != $from } $cluster->primaries;
my $slot    = $cluster->slot($SHARD);

# Without a new configuration epoch, the other node does not learn that it is the owner.
$from->execute('CLUSTER', 'SETSLOT', $slot, 'NODE', $to->{id});
my $relay = Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0 }, wait => 0);
wait_until('the relay logs a warning', sub { $relay->log_text =~ /level=warn .*disagree/ });
my ($warning) = grep { /disagree/ } split /\n/, $relay->log_text;
like($warning, qr/shard=$SHARD /, 'the warning contains the shard');
like($warning, qr/:\Q$_->{port}\E"/, "the warning contains $_->{name}") for $from, $to;
my @moves = $relay->log_text =~ /moved to another server.*shards="?$SHARD\b/g;
cmp_ok(scalar @moves, '<=', 1, 'returns to the former server are not logged as moves');

$to->execute('CLUSTER', 'SETSLOT', $slot, 'NODE', $to->{id});
$relay->wait_ready;
my $client = $relay->client('u1');
$pg->safe_psql('postgres', q{SELECT clairon.notify('ALL', '{}', '{"n": 1}')});
$client->wait_notifications(1);
is_deeply([ map { $_->{payload}{n} } $client->notifications ], [1], 'the relay delivers when the nodes agree again');
my @seconds = map { my ($h, $m, $s) = split /:/; 3600 * $h + 60 * $m + $s } $relay->log_text =~ / time=\S+T(\S+)Z msg="[^"]*disagree/g;
ok(@seconds && !grep({ ($seconds[$_] - $seconds[ $_ - 1 ]) % 86_400 < 9 } 1 .. $#seconds), 'the warning is logged at most once in ten seconds') or diag "@seconds";

done_testing();
