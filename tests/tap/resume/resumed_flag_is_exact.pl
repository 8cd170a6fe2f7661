# Tests that `resumed` is true if and only if no notification was lost, and that a client that connects during a
# store failure waits.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Client;
use Clairon::Test::EventStream;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $proxy = Clairon::Test::proxy($store->{socket});
my $relay = Clairon::Test::relay($pg, $store);
my $proxied = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'store.url' => $proxy->url('redis') });

sub notify
{
    my ($user, %options) = @_;
    my $more = join '', map { ", $_ => '$options{$_}'" } sort keys %options;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{$user}', '{}'$more)");
}
sub has { my ($client, $id) = @_; return grep { $_->{metadata}{id} eq $id } $client->notifications }

# Returns the result of a resume from this cursor up to the notification: [resumed, gaps].
sub resume
{
    my ($at, $user, $pos, $last, %options) = @_;
    my $client = $at->client($user, pos => $pos, %options);
    $client->run_until('the last notification arrives', sub { has($client, $last) });
    my $resumed = $client->wait_for('connected')->{resumed} ? 'whole' : 'not whole';
    return [ $resumed, $client->gaps ];
}
sub wait_expired { my ($id) = @_;
    my ($entry) = grep { $_->{id} eq $id } $store->entries;
    my ($end) = JSON::decode_json($entry->{data})->{metadata}{expiration} // die "no end\n";
    wait_until('the notification has expired', sub { $pg->safe_psql('postgres', "SELECT now() > '$end'") eq 't' }) }

my $pos = $relay->client('u1')->pos;
my $foreign = notify('u2', ttl => '300 milliseconds');
my $first   = notify('u1', topic => 'kept');
wait_until('both notifications are stored', sub { $store->entries == 2 });
wait_expired($foreign);
is_deeply(resume($relay, 'u1', $pos, $first), [ 'whole', '' ], 'an expired notification of another user is not a loss');
my $short = notify('u1', ttl => '300 milliseconds', topic => 'short');
my $last  = notify('u1', topic => 'kept');
wait_until('all notifications are stored', sub { $store->entries == 4 });
wait_expired($short);
is_deeply(resume($relay, 'u1', $pos, $last), [ 'not whole', 'expired' ], 'an expired notification of the user is reported as a gap');
is_deeply(resume($relay, 'u1', $pos, $last, topics => ['kept']), [ 'whole', '' ], 'an expired notification of another topic is not a loss');
my $stream = Clairon::Test::EventStream->open($relay, 'u1', 'Last-Event-ID' => $pos);
is($stream->wait_message('connected')->{resumed}, JSON::false, 'an expired notification of the user is a loss on SSE');
my $all = $relay->client('u1', pos => $pos);
$all->run_until('the last notification arrives', sub { has($all, $last) });
my $behind = $all->pos;
$all->close;
is_deeply(resume($relay, 'u1', $behind, notify('u1')), [ 'whole', '' ],
    'a client resumes from a cursor after the loss');

# Notifications that are no longer in the replay buffer are read from the store.
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u3}', '{}') FROM generate_series(1, 600)});
$last = notify('u1');
wait_until('all notifications are stored', sub { $store->entries == 606 });
$relay->restart;
is_deeply(resume($relay, 'u1', $pos, $last), [ 'not whole', 'expired' ], 'a client with a cursor from before the restart of the relay receives the gap');
is_deeply(resume($relay, 'u1', $behind, $last), [ 'whole', '' ],
    'a client resumes from a cursor that is several pages behind');

# A session that is far behind resumes too, and receives all notifications, including live notifications.
my $start = $relay->client('u4')->pos;
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', CASE i % 100 WHEN 0 THEN '{u4}' ELSE '{nobody,no one}' END::text[],
    jsonb_build_object('nth', i)) FROM generate_series(1, 22000) i});
notify('u4');
wait_until('the relays have read all notifications', sub { 2 == grep { $_->metric('clairon_hub_notifications_total') >= 22_001 } $relay, $proxied });
for my $at ($relay, $proxied)
{
    my $late = $at->client('u4', pos => $start);
    is($late->wait_for('connected')->{resumed}, JSON::true, 'a session far behind resumes');
    my $live = notify('u4');
    $late->run_until('the live notification arrives', sub { has($late, $live) });
    is_deeply([ grep { defined } map { $_->{payload}{nth} } $late->notifications ], [ map { 100 * $_ } 1 .. 220 ], 'a session far behind receives all notifications in order, without duplicates');
    is($late->gaps, '', 'a session far behind receives no gap');
    $late->close;
}

# The store stops while a client connects: the client stays connected.
$proxy->freeze;
my $waiting = Clairon::Test::Client->new($proxied->url('/v1/ws'));
$waiting->send({ t => 'connect', r => 1, token => Clairon::Test::token(sub => 'u1'), pos => $behind });
$waiting->send({ t => 'ping' });
$waiting->wait_for('pong');
$proxy->cut;
$proxied->wait_for_log(qr/component=store(?:-\d)? level=warn/);
$proxy->thaw;
$waiting->run_until('the notification arrives', sub { has($waiting, $last) || $waiting->{closed} });
ok(!$waiting->{closed}, 'a client that connects during the outage is served after the restart');
is_deeply([ grep { $_->{t} eq 'bye' } @{ $waiting->{messages} } ], [], 'the client receives no bye');
is($_->stop, 0, 'SIGTERM ends a relay with status 0') for $relay, $proxied;

done_testing();
