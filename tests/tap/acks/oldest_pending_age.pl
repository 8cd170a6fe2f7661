# Tests that the age of the oldest pending notification counts from its commit, regardless of retries.
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
sub notify
{
    my ($mark, @more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{u1}', '{\"mark\": \"$mark\"}', " .
            join(', ', 'ack_required => true', 'retry_limit => 1000', @more) . ')');
}
sub age { return $relay->metric('clairon_pending_oldest_seconds') }

my $id = notify('old');
$client->run_until('retries arrive', sub { of_mark($client, 'old') > 20 });

# The younger notification has no retries, so it is first in the stream: each retry adds a new stream entry.
my $before = $pg->safe_psql('postgres', 'SELECT extract(epoch FROM clock_timestamp())');
my $first = notify('first in the stream', q{ack_timeout => '1 hour'});
sub seconds_since { return $pg->safe_psql('postgres', "SELECT extract(epoch FROM clock_timestamp()) - $before") }
my $retries = of_mark($client, 'old');
$client->run_until('a later retry arrives', sub { of_mark($client, 'first in the stream') && of_mark($client, 'old') > $retries + 1 });
# The metric is sampled: its second change proves that a sample was taken after the retry. The second notification
# was sent after $before, so an age above seconds_since() is the age of the first notification.
my @samples = (age());
$client->run_until('two more samples have been taken', sub { my $age = age(); push @samples, $age if $age != $samples[-1]; @samples > 2 });
$client->run_until('the age counts from the commit', sub { my $age = age(); $age > seconds_since() });
pass('retries do not reset the age');
$client->ack($first);
$client->run_until('the first notification in the stream is acknowledged', sub { !$store->execute('HEXISTS', $store->of($first, 'pending'), $first) });
my $newer = notify('young');

my ($status, $body) = $relay->get('/v1/console', Authorization => 'Bearer ' . token(sub => 'op', admin => JSON::true));
is(JSON::decode_json($body)->{store}{oldest}[0]{id}, $id, 'the console lists the older notification first');

$client->ack($id);
$client->run_until('the older notification is acknowledged',
    sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) });
is($store->execute('ZSCORE', $store->of($newer, 'retried'), $id), undef,
    'the commit time of the acknowledged notification is deleted');
$client->run_until('the other notification is retried', sub { of_mark($client, 'young') > 2 });
$client->ack($newer);
$client->run_until('no notification is pending', sub { (age() // 1) == 0 });
is_deeply([ grep { /:retried/ } @{ $store->execute('KEYS', '*') } ], [], 'all commit times are deleted');

done_testing();
