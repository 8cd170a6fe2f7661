# Tests that, if scripts, streams, consumer groups or permissions are removed while the feed is idle, the relay restores
# them or logs the problem, and announces a loss.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Mojo::UserAgent;
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.ping' => '1h' });
my $client = $relay->client('u1');
Mojo::UserAgent->new->post($relay->url('/v1/notifications'), { Authorization => 'Bearer ' . token(sub => 'app', publish => JSON::true()) },
    json => { routing => { audience => { type => 'ALL', targets => [] } }, payload => { text => 'x' } });
$client->wait_notifications(1);

my ($stream) = $store->keys('stream');
sub groups { my $reply = eval { $store->execute('XINFO', 'GROUPS', $stream) } // []; return scalar @$reply }

$store->execute('XGROUP', 'DESTROY', $stream, 'clairon');
wait_until('the consumer group exists again', sub { groups() == 1 });
is(scalar $store->entries($stream), 1, 'a removed consumer group is recreated without a loss');
is($client->gaps, '', 'a removed consumer group causes no gap');

$store->execute('DEL', $stream);
is($client->wait_for('gap')->{why}, 'epoch', 'a removed stream causes a gap');
is(groups(), 1, 'the new stream has a consumer group');

my $mark = $relay->log_mark;
$store->execute('SCRIPT', 'FLUSH');
$relay->wait_for_log(qr/scripts were flushed/, from => $mark);
wait_until('the relay is ready again', sub { ($relay->get('/readyz'))[0] == 200 });
pass('flushed scripts are loaded again');

# A user without read access to the streams can connect: the relay retries with backoff.
$store->execute('ACL', 'SETUSER', 'blind', 'on', '>right', '~clairon:*', '+@all', '-@dangerous', '+info', '+config|get', '-xread');
my $proxy = Clairon::Test::proxy($store->{socket});
$relay->stop;
$relay->configure('store.url' => 'redis://blind:right@127.0.0.1:' . $proxy->port);
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/component=store-reader level=warn .*NOPERM.*hint="the relay's ACL user needs .*retry_ms=[1-9]\d{3}\b/, from => $mark);
pass('the relay retries with backoff');

done_testing();
