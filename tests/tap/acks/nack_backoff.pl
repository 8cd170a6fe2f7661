# Tests that a nack waits for the longer of the backoff and its own delay.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark);
use Test::More;

use constant BASE_MS => 40_000;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'delivery.backoff_base' => BASE_MS . 'ms', 'delivery.backoff_cap' => '5m' });
my $client = $relay->client('u1');

# The nack's delay in ms, from the trace.
sub nack_delay
{
    my ($id) = @_;
    my ($event) = grep { /^nacked / } @{ $store->execute('LRANGE', $store->of($id, "trace:$id"), 0, -1) };
    return $event && (split / /, $event)[3];
}

my %wait;
for my $delay (0, 3 * BASE_MS)
{
    my $id = $pg->safe_psql('postgres', qq{SELECT clairon.notify('USER', '{u1}', '{"mark": "$delay"}', ack_required => true)});
    $client->run_until('the notification arrives', sub { of_mark($client, $delay) });
    $client->send({ t => 'nack', ids => [$id], delay => 0 + $delay });    # JSON::XS quotes an interpolated number
    $wait{$delay} = wait_until('the nack is stored', sub { nack_delay($id) });
}
cmp_ok($wait{0}, '>=', BASE_MS, 'a nack without a delay waits for the backoff');
cmp_ok($wait{0}, '<=', 1.2 * BASE_MS, 'a nack without a delay waits no longer than the backoff');
is($wait{ 3 * BASE_MS }, 3 * BASE_MS, 'a nack with a longer delay waits for that delay');

done_testing();
