# Tests that a user who only polls occasionally receives retries of unacknowledged notifications.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use JSON ();
use Mojo::UserAgent;
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => {
    'delivery.ack_timeout' => '30m', 'delivery.backoff_base' => '50ms', 'delivery.backoff_cap' => '1h' });
my $agent = Mojo::UserAgent->new;
my $pos   = '';

# The ids returned by a poll with wait=0.
sub poll
{
    my $response = $agent->get($relay->url('/v1/poll?wait=0' . ($pos ? "&pos=$pos" : '')),
        { Authorization => 'Bearer ' . token(sub => 'u1') })->result;
    $pos = $response->headers->header('Clairon-Pos') // $pos;
    return map { $_->{n}{metadata}{id} } grep { $_->{t} eq 'msg' } map { JSON::decode_json($_) } split /\n/, $response->body;
}

sub due { my ($id) = @_; return $store->execute('ZSCORE', $store->of($id, 'due'), "$id:u1") }

my $id = $pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true)});
wait_until('the notification is stored', sub { $store->pending == 1 });
is_deeply([ poll() ], [$id], 'the first poll returns the pending notification');
wait_until('the ack timeout starts', sub { due($id) });
is_deeply([ poll() ], [], 'the next poll within the ack timeout does not return the notification');
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:u1");
wait_until('the ack timeout passes between two polls', sub { due($id) > 1 });
is_deeply([ poll() ], [$id], 'a poll after the ack timeout returns a retry');
is_deeply([ poll() ], [], 'a retry is returned only once');

# The retry is not delivered before the nack's delay has passed.
my $response = $agent->post($relay->url('/v1/nack'), { Authorization => 'Bearer ' . token(sub => 'u1') }, json => { ids => [$id], delay => 3_600_000 })->result;
is($response->code, 204, 'the nack is accepted');
wait_until('the retry is deferred', sub { due($id) > 1000 * time + 3_000_000 });
is_deeply([ poll() ], [], 'a deferred retry is not returned early');
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:u1");
wait_until('the delay passes', sub { due($id) > 1 });
is_deeply([ poll() ], [$id], 'the retry is returned after the delay');
$agent->post($relay->url('/v1/ack'), { Authorization => 'Bearer ' . token(sub => 'u1') }, json => { ids => [$id] });
wait_until('the notification is complete', sub { $store->pending == 0 });

done_testing();
