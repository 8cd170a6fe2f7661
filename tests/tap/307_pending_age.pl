# Does the age of the oldest pending notification count from its commit, whatever number of times it was retried?
use strict;
use warnings;

use Clairon::Test qw(token of_mark);
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'gate.console' => 'on',
    'delivery.ack_timeout' => '100ms', 'delivery.backoff_base' => '50ms', 'delivery.backoff_cap' => '100ms' });
my $client = $relay->client('u1');
sub notify { return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{u1}', '{\"mark\": \"$_[0]\"}', ack_required => true, retry_limit => 1000)") }
sub age { return $relay->metric('clairon_pending_oldest_seconds') }

my $id = notify('old');
my $committed = $pg->safe_psql('postgres', 'SELECT extract(epoch FROM clock_timestamp())');
sub seconds_ago { return $pg->safe_psql('postgres', "SELECT extract(epoch FROM clock_timestamp()) - $committed") }
$client->run_until('retries', sub { of_mark($client, 'old') > 20 });
my $young = notify('young');
# The metric is renewed by and by: what it says now was so a moment ago, and retries go on meanwhile.
my $least = seconds_ago();
$client->run_until('the age counts from the commit', sub { (age() // 0) >= $least }, 30);
pass('retries do not make it younger');

my ($status, $body) = $relay->get('/v1/console', Authorization => 'Bearer ' . token(sub => 'op', admin => JSON::true));
is(JSON::decode_json($body)->{store}{oldest}[0]{id}, $id, 'the console shows the older one first');

$client->ack($id);
$client->run_until('the older one is acknowledged', sub { !$store->ask('HEXISTS', $store->of($id, 'pending'), $id) });
is($store->ask('ZSCORE', $store->of($young, 'retried'), $id), undef, 'it is forgotten');
$client->run_until('a retry of the other', sub { of_mark($client, 'young') > 2 });
$client->ack($young);
$client->run_until('nothing is pending', sub { (age() // 1) == 0 });
is_deeply([ grep { /:retried/ } @{ $store->ask('KEYS', '*') } ], [], 'nothing is left of it');

done_testing();
