# Tests that relays that wait for the whole shard do no periodic work on the node that has only some of its keys: due
# retries would find no stream entries, and treat the notifications as expired.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

use constant { ROWS => 50, RELAYS => 4 };

my $cluster = Clairon::Test::store_cluster(replicas => 0, shards => 3);
my $pg      = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my %conf  = ('store.min_replicas' => 0, 'delivery.ack_timeout' => '1h', 'gate.ping' => '1h');
my $relay = Clairon::Test::relay($pg, $cluster, conf => {%conf});
my @gates = map { Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => {%conf}) } 2 .. RELAYS;
my $shard = $cluster->shard_of('u1');
my ($slot, $from) = ($cluster->slot($shard), $cluster->primary_of($shard));
my ($to) = grep { $_ != $from } $cluster->primaries;
my $client = $relay->client('u1');
sub key { return "clairon:{$shard}:$_[0]" }

$pg->safe_psql('postgres', "INSERT INTO t SELECT i, 'u1' FROM generate_series(1, ${\ROWS}) i");
$client->wait_notifications(ROWS);
wait_until('the ack timeouts run', sub { $from->execute('ZCARD', key('due')) == ROWS });

# A move is interrupted after the stream, and the former node owns the slot again.
$cluster->begin_move($shard, $to);
$cluster->move_keys($shard, $from, $to, 0, qr/:(?:stream|meta|heartbeat)$/);
$_->wait_for_log(qr/shard is moving/) for $relay, @gates;
$_->execute('CLUSTER', 'SETSLOT', $slot, 'STABLE') for $from, $to;
$_->wait_for_log(qr/keys of a shard are on several nodes/) for $relay, @gates;
my @due = @{ $from->execute('ZRANGE', key('due'), 0, -1) };
$from->execute('ZADD', key('due'), map { (0, $_) } @due);

# The relays connect about once a second to check the keys.
sub connections { return $from->execute('INFO', 'stats') =~ /^total_connections_received:(\d+)/m ? $1 : 0 }
my $wanted = connections() + 30 * RELAYS;
wait_until('the relays have checked the keys repeatedly', sub { connections() >= $wanted });
is($from->execute('HLEN', key('pending')), ROWS, 'all notifications are pending');
is($from->execute('ZCARD', key('due')), ROWS, 'all retries are due');
is($from->execute('EXISTS', key('errors')), 0, 'no notification is in the error log');
is($from->execute('EXISTS', key('heartbeat')), 0, 'no heartbeat is written');

# The move is continued.
$cluster->begin_move($shard, $to);
$cluster->move_keys($shard, $from, $to, 0, qr/./);
$cluster->end_move($shard, $from, $to);
# Retries arrive, or the relay starts the ack timeouts again because the user is still connected.
my %seen = map { $_->{metadata}{id} => 1 } $client->notifications;
$client->ack(CORE::keys %seen);
wait_until('all notifications are acknowledged', sub { $cluster->pending == 0 });
is(scalar(%seen), ROWS, 'the user has received all rows');
is($cluster->execute('EXISTS', key('errors')), 0, 'no notification was lost');

done_testing();
