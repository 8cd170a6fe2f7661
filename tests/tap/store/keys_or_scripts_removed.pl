# Somebody removes scripts, stream or group while nobody writes, or a right: is it mended, or said, and a loss told?
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
sub groups { my $answer = eval { $store->execute('XINFO', 'GROUPS', $stream) } // []; return scalar @$answer }

$store->execute('XGROUP', 'DESTROY', $stream, 'clairon');
wait_until('the group is back', sub { groups() == 1 });
is(scalar $store->entries($stream), 1, 'a group that was removed is made again, and nothing is lost');
is($client->gaps, '', 'nor told as lost');

$store->execute('DEL', $stream);
is($client->wait_for('gap')->{why}, 'epoch', 'a stream that was removed is a gap');
is(groups(), 1, 'and is there again');

my $mark = $relay->log_mark;
$store->execute('SCRIPT', 'FLUSH');
$relay->wait_for_log(qr/its scripts were flushed/, from => $mark);
wait_until('it is ready again', sub { ($relay->get('/readyz'))[0] == 200 });
pass('scripts that were flushed are loaded again');

# A user that may not read the streams is greeted well, again and again: but not in haste.
$store->execute('ACL', 'SETUSER', 'blind', 'on', '>right', '~clairon:*', '+@all', '-@dangerous', '+info', '+keys', '+config|get', '-xread');
my $proxy = Clairon::Test::proxy($store->{socket});
$relay->stop;
$relay->configure('store.url' => 'redis://blind:right@127.0.0.1:' . $proxy->port);
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/who=store-reader level=warn .*NOPERM.*; the relay's ACL user needs .*trying again in [1-9]\d{3} ms/, from => $mark);
pass('a user who may not read is tried less and less often');

done_testing();
