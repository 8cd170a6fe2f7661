# Tests that relays that wait for the whole shard do no periodic work on the node that has only some of its keys: due
# retries would find no stream entries, and treat the notifications as expired.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

use constant { ROWS => 50, CHECKS => 3, PAUSE_MS => 14_000 };

my $cluster = Clairon::Test::store_cluster(replicas => 0, shards => 3);
my $pg      = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my %conf  = ('store.min_replicas' => 0, 'delivery.ack_timeout' => '1h', 'gate.ping' => '1h');
my $relay = Clairon::Test::relay($pg, $cluster, conf => {%conf});
my @relays = ($relay, Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => {%conf}));
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
$_->wait_for_log(qr/shard is moving/) for @relays;
$_->execute('CLUSTER', 'SETSLOT', $slot, 'STABLE') for $from, $to;
$_->wait_for_log(qr/keys of a shard are on several nodes/) for @relays;
my @due = @{ $from->execute('ZRANGE', key('due'), 0, -1) };
$from->execute('ZADD', key('due'), map { (0, $_) } @due);

# While the other node does not reply, each connection to this node is open for a second, longer than the interval of
# the due retries. All together is longer than the interval of the heartbeats, and than the timeout of the reader.
my $checked = qr/could not count the keys of a shard on another node.*timed out/;
my @marks = map { $_->log_mark } @relays;
$to->execute('CLIENT', 'PAUSE', PAUSE_MS);
for my $k (0 .. $#relays)
{
    wait_until('the relay has checked the keys repeatedly', sub { (() = $relays[$k]->log_text($marks[$k]) =~ /$checked/g) >= CHECKS });
}
is($from->execute('HLEN', key('pending')), ROWS, 'all notifications are pending');
is($from->execute('ZCARD', key('due')), ROWS, 'all retries are due');
is($from->execute('EXISTS', key('errors')), 0, 'no notification is in the error log');
is($from->execute('EXISTS', key('heartbeat')), 0, 'no heartbeat is written');

unlike($relay->log_text, qr/component=store-reader-$shard .*timed out/, 'the wait is not logged as a timeout of the reader');

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
