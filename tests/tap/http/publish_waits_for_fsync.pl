# Does a 201 that waits for the disk come only for a notification that survives the kill of an everysec store?
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate');
is($store->execute('CONFIG', 'SET', 'appendonly', 'yes'), 'OK', 'the store writes a file');
is($store->execute('CONFIG', 'SET', 'appendfsync', 'everysec'), 'OK', 'which it syncs every second');

sub begin
{
    my ($key, %headers) = @_;
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->begin(POST => '/v1/notifications', ':body' => { payload => { key => $key }, routing => { audience => { type => 'USER', targets => ['u1'] } } },
        Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true), 'Idempotency-Key' => $key, %headers);
    return $raw;
}
sub post { return begin(@_)->read_response }

# The mode is asked for when the relay connects.
$relay->restart;
my $plain = post('a');
is($plain->{status}, 201, 'without Prefer the answer does not wait');
is($plain->{headers}{'preference-applied'}, undef, 'and promises nothing');
is(post('short', Prefer => 'wait=1')->{headers}{'preference-applied'}, undef, 'a wait that is too short is not applied');
my $synced = post('b', Prefer => 'respond-async, wait=10');
is($synced->{status}, 201, 'with Prefer: wait it is 201 too');
is($synced->{headers}{'preference-applied'}, 'wait', 'and says that it waited');
is(post('prefer ' . $_, Prefer => $_)->{headers}{'preference-applied'}, 'wait', "Prefer: $_ is applied")
  for 'WAIT=10', 'wait="10"', 'respond-async; x="a, wait=1", Wait = "10" ; foo';
is(post('prefer ' . $_, Prefer => $_)->{headers}{'preference-applied'}, undef, "Prefer: $_ is none to wait")
  for 'nowait=10', 'wait=10x', 'wait="10', 'x="a, wait=10"', 'wait';
my $again = post('b', Prefer => 'wait=10');
my $preflight = Clairon::Test::RawSocket->new($relay)->request(OPTIONS => '/v1/notifications', Origin => "http://127.0.0.1:$relay->{port}");
like($preflight->{headers}{'access-control-allow-headers'}, qr/\bprefer\b/, 'pages may send Prefer');
is_deeply([ $again->{status}, $again->{json}{id}, @{ $again->{headers} }{qw(preference-applied idempotency-replayed)} ],
    [ 200, $synced->{json}{id}, 'wait', 'true' ], 'a repeat waits too');

# What is lost meanwhile is not promised: as a store does that is killed before it synced.
my $held = begin('c', Prefer => 'wait=10');
my $entry = wait_until('it is stored', sub { my ($found) = grep { $_->{data} =~ /"key":"c"/ } $store->entries; $found });
ok(!IO::Select->new($held->{link})->can_read(0), 'the answer waits');
$store->execute('XDEL', $entry->{stream}, $entry->{entry});
$store->execute('DEL', $_) for grep { /\Q$entry->{id}\E|asked:/ } @{ $store->execute('KEYS', '*') };
my $lost = $held->read_response;
is($lost->{status}, 503, 'a notification that the store lost is not 201');
like($lost->{json}{detail}, qr/lost the notification/, 'the problem says so');
my $second = post('c');
is($second->{status}, 201, 'the same key then stores it anew') or diag(explain($second));
isnt($second->{json}{id}, $entry->{id}, 'with an id of its own');

# The store goes away while it waits.
$held = begin('d', Prefer => 'wait=10');
wait_until('it is stored', sub { grep { $_->{data} =~ /"key":"d"/ } $store->entries });
$store->stop;
is($held->read_response->{status}, 503, 'a store that is away confirms nothing');
$store->start;
$relay->wait_ready;

# For all requests, and with a store that always syncs.
$relay->configure('store.publish_sync' => 'on');
$relay->restart;
is(post('e')->{headers}{'preference-applied'}, 'wait', 'publish_sync = on: every answer waits');
is($store->execute('CONFIG', 'SET', 'appendfsync', 'always'), 'OK', 'a store that syncs each write');
$relay->restart;
is(post('f', Prefer => 'wait=1')->{headers}{'preference-applied'}, 'wait', 'has synced when it answers');
my $last = begin('g');
$relay->stop;
pass('a relay that stops while an answer waits ends');
done_testing();
