# A user who polls now and then, and is nowhere in between: is what he did not acknowledge shown again in time?
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use JSON ();
use Mojo::UserAgent;
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => {
    'delivery.ack_timeout' => '2s', 'delivery.backoff_base' => '50ms', 'delivery.backoff_cap' => '1h' });
my $agent = Mojo::UserAgent->new;
my $pos   = '';

# The ids that a poll which does not wait is shown.
sub poll
{
    my $answer = $agent->get($relay->url('/v1/poll?wait=0' . ($pos ? "&pos=$pos" : '')),
        { Authorization => 'Bearer ' . token(sub => 'u1') })->result;
    $pos = $answer->headers->header('Clairon-Pos') // $pos;
    return map { $_->{n}{metadata}{id} } grep { $_->{t} eq 'msg' } map { JSON::decode_json($_) } split /\n/, $answer->body;
}

sub due { my ($id) = @_; return $store->execute('ZSCORE', $store->of($id, 'due'), "$id:u1") }

my $id = $pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true)});
wait_until('it is stored', sub { $store->pending == 1 });
is_deeply([ poll() ], [$id], 'the first poll is shown what waits');
my $first = wait_until('its time runs', sub { due($id) });
is_deeply([ poll() ], [], 'the next one is not, as there is time left for the ack');
wait_until('its time is over while he is away', sub { due($id) != $first });
is_deeply([ poll() ], [$id], 'then it is shown again');
is_deeply([ poll() ], [], 'once');

# Who asked for it later is not shown it earlier.
my $answer = $agent->post($relay->url('/v1/nack'), { Authorization => 'Bearer ' . token(sub => 'u1') }, json => { ids => [$id], delay => 3_600_000 })->result;
is($answer->code, 204, 'a nack is taken');
wait_until('it is put off', sub { due($id) > 1000 * time + 3_000_000 });
is_deeply([ poll() ], [], 'what was put off by a nack has its time');
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:u1");
wait_until('that is over', sub { due($id) > 1 });
is_deeply([ poll() ], [$id], 'and is shown again behind it');
$agent->post($relay->url('/v1/ack'), { Authorization => 'Bearer ' . token(sub => 'u1') }, json => { ids => [$id] });
wait_until('it is done', sub { $store->pending == 0 });

done_testing();
