# Does `resumed` say exactly whether something was lost, and does a client that connects as the store dies just wait?
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::EventStream;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $proxy = Clairon::Test::proxy($store->{socket});
my $relay = Clairon::Test::relay($pg, $store);
my $far   = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'store.url' => $proxy->url('redis') });

sub notify
{
    my ($user, %options) = @_;
    my $more = join '', map { ", $_ => '$options{$_}'" } sort keys %options;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{$user}', '{}'$more)");
}
sub has { my ($client, $id) = @_; return grep { $_->{metadata}{id} eq $id } $client->notifications }

# What comes back from this position, up to the message; [resumed, gaps].
sub resume
{
    my ($at, $user, $pos, $last, %options) = @_;
    my $client = $at->client($user, pos => $pos, %options);
    $client->run_until('the last message', sub { has($client, $last) });
    my $resumed = $client->wait_for('connected')->{resumed} ? 'whole' : 'not whole';
    return [ $resumed, $client->gaps ];
}
sub wait_expired { my ($id) = @_;
    my ($entry) = grep { $_->{id} eq $id } $store->entries;
    my ($end) = JSON::decode_json($entry->{data})->{metadata}{expiration} // die "no end\n";
    wait_until('it is over', sub { $pg->safe_psql('postgres', "SELECT now() > '$end'") eq 't' }) }

my $pos = $relay->client('u1')->pos;
my $foreign = notify('u2', ttl => '300 milliseconds');
my $first   = notify('u1', topic => 'kept');
wait_until('both are stored', sub { $store->entries == 2 });
wait_expired($foreign);
is_deeply(resume($relay, 'u1', $pos, $first), [ 'whole', '' ], 'what others lost is no loss');
my $short = notify('u1', ttl => '300 milliseconds', topic => 'short');
my $last  = notify('u1', topic => 'kept');
wait_until('all are stored', sub { $store->entries == 4 });
wait_expired($short);
is_deeply(resume($relay, 'u1', $pos, $last), [ 'not whole', 'expired' ], 'what expired is a loss, and told');
is_deeply(resume($relay, 'u1', $pos, $last, topics => ['kept']), [ 'whole', '' ], 'not one of what is not asked for');
my $stream = Clairon::Test::EventStream->open($relay, 'u1', 'Last-Event-ID' => $pos);
is($stream->wait_message('connected')->{resumed}, JSON::false, 'SSE is told the same');
my $all = $relay->client('u1', pos => $pos);
$all->run_until('the last message', sub { has($all, $last) });
my $behind = $all->pos;
$all->close;
is_deeply(resume($relay, 'u1', $behind, notify('u1')), [ 'whole', '' ], 'behind it all is well');

# Further back than a relay remembers: in the store.
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u3}', '{}') FROM generate_series(1, 600)});
$last = notify('u1');
wait_until('all are stored', sub { $store->entries == 606 });
$relay->restart;
is_deeply(resume($relay, 'u1', $pos, $last), [ 'not whole', 'expired' ], 'also from before the relay began');
is_deeply(resume($relay, 'u1', $behind, $last), [ 'whole', '' ], 'which page by page is looked through');

# Further back than is looked through: not said to be whole, but all there, beside what comes live.
my $start = $relay->client('u4')->pos;
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', CASE i % 100 WHEN 0 THEN '{u4}' ELSE '{nobody,no one}' END::text[],
    jsonb_build_object('nth', i)) FROM generate_series(1, 22000) i});
notify('u4');
wait_until('all are read', sub { 2 == grep { $_->metric('clairon_hub_notifications_total') >= 22_001 } $relay, $far });
for my $at ($relay, $far)
{
    my $late = $at->client('u4', pos => $start);
    is($late->wait_for('connected')->{resumed}, JSON::false, 'who is very far behind is not told that nothing was lost');
    my $live = notify('u4');
    $late->run_until('what came live', sub { has($late, $live) });
    is_deeply([ grep { defined } map { $_->{payload}{nth} } $late->notifications ], [ map { 100 * $_ } 1 .. 220 ], 'but has all, in order, once');
    is($late->gaps, '', 'without a gap');
    $late->close;
}

# The store goes as a client connects: it is not sent away.
$proxy->freeze;
my $waiting = Clairon::Test::Client->new($far->url('/v1/ws'));
$waiting->send({ t => 'connect', r => 1, token => Clairon::Test::token(sub => 'u1'), pos => $behind });
$waiting->send({ t => 'ping' });
$waiting->wait_for('pong');
$proxy->cut;
$far->wait_for_log(qr/who=store(?:-\d)? level=warn/);
$proxy->thaw;
$waiting->run_until('it goes on', sub { has($waiting, $last) || $waiting->{closed} });
ok(!$waiting->{closed}, 'who connects as the store goes away waits, and is served when it is back');
is_deeply([ grep { $_->{t} eq 'bye' } @{ $waiting->{messages} } ], [], 'without a bye');
is($_->stop, 0, 'SIGTERM ends a relay in good order') for $relay, $far;

done_testing();
