# Tests that users who connect and disconnect while the store is out of memory receive the correct retries
# after it recovers.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark token);
use Clairon::Test::RawSocket;
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'gate.ping' => '1h',
    'delivery.ack_timeout' => '300ms', 'delivery.backoff_base' => '50ms', 'delivery.backoff_cap' => '200ms' });

sub notify { my ($user, $mark) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{$user}', '{\"mark\": \"$mark\"}', ack_required => true, retry_limit => 1000)") }
sub present_users { return sort map { @{ $store->execute('SMEMBERS', $_) } } grep { /:presence:/ } @{ $store->execute('KEYS', $store->shared('presence') . ':*') } }

my ($staying, $leaving) = map { $relay->client($_) } qw(stays goes);
wait_until('both users are present', sub { "@{[ present_users() ]}" eq 'goes stays' });
my $mark = $relay->log_mark;
$store->execute('CONFIG', 'SET', 'maxmemory', 1);
my $joining = $relay->client('comes');
$leaving->close;
$relay->wait_for_log(qr/could not store presence" error=".*OOM/, from => $mark);
wait_until('/readyz reports that the store rejects writes', sub { ($relay->get('/readyz'))[1] =~ /"store":"rejects writes"/ });
is(($relay->get('/readyz'))[0], 200, 'the relay still serves its clients');
is($relay->metric('clairon_store_rejects_writes'), 1, 'a metric reports it');
my $response = Clairon::Test::RawSocket->new($relay)->request(POST => '/v1/ticket', Authorization => 'Bearer ' . token(sub => 'stays'), 'Content-Length' => 0);
like($response->{body}, qr/"status":503,"detail":"store rejects writes"/, 'a request that must write fails with that reason');
$store->execute('CONFIG', 'SET', 'maxmemory', 0);
wait_until('presence is announced again', sub { "@{[ present_users() ]}" eq 'comes stays' });
pass('presence is announced again once the store accepts writes');
like(($relay->get('/readyz'))[1], qr/"store":"up"/, '/readyz reports that it accepts writes again');
for my $client ($staying, $joining)
{
    my $id = notify($client == $staying ? 'stays' : 'comes', 'm');
    $client->run_until('a retry arrives', sub { of_mark($client, 'm') > 1 });
    $client->ack($id);
}
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
pass('connected users receive retries');

done_testing();
