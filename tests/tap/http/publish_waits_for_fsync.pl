# Tests that, with appendfsync everysec, a request that waits for fsync receives 201 only if its notification survives a
# SIGKILL of the store.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate');
is($store->execute('CONFIG', 'SET', 'appendonly', 'yes'), 'OK', 'the store has an append-only file');
is($store->execute('CONFIG', 'SET', 'appendfsync', 'everysec'), 'OK', 'the store syncs every second');

sub begin
{
    my ($key, %headers) = @_;
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->begin(POST => '/v1/notifications', ':body' => { payload => { key => $key }, routing => { audience => { type => 'USER', targets => ['u1'] } } },
        Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true), 'Idempotency-Key' => $key, %headers);
    return $raw;
}
sub post { return begin(@_)->read_response }

# The relay reads appendfsync when it connects.
$relay->restart;
my $plain = post('a');
is($plain->{status}, 201, 'without Prefer, the response does not wait');
is($plain->{headers}{'preference-applied'}, undef, 'a response without a wait has no Preference-Applied');
is(post('short', Prefer => 'wait=1')->{headers}{'preference-applied'}, undef, 'a wait below the minimum is ignored');
my $synced = post('b', Prefer => 'respond-async, wait=10');
is($synced->{status}, 201, 'Prefer: wait returns 201');
is($synced->{headers}{'preference-applied'}, 'wait', 'Prefer: wait returns Preference-Applied');
is(post('prefer ' . $_, Prefer => $_)->{headers}{'preference-applied'}, 'wait', "Prefer: $_ is applied")
  for 'wait', 'WAIT=10', 'wait="10"', 'respond-async; x="a, wait=1", Wait = "10" ; foo';
is(post('prefer ' . $_, Prefer => $_)->{headers}{'preference-applied'}, undef, "Prefer: $_ is not a wait")
  for 'nowait=10', 'wait=10x', 'wait="10', 'x="a, wait=10"', 'wait=';
my $again = post('b', Prefer => 'wait=10');
my $preflight = Clairon::Test::RawSocket->new($relay)->request(OPTIONS => '/v1/notifications', Origin => "http://127.0.0.1:$relay->{port}");
like($preflight->{headers}{'access-control-allow-headers'}, qr/\bprefer\b/, 'CORS allows Prefer');
is_deeply([ $again->{status}, $again->{json}{id}, @{ $again->{headers} }{qw(preference-applied idempotency-replayed)} ],
    [ 200, $synced->{json}{id}, 'wait', 'true' ], 'a repeat also waits for the sync');

# The store loses a notification before its fsync, as after a SIGKILL.
my $held = begin('c', Prefer => 'wait=10');
my $entry = wait_until('the notification is stored', sub { my ($found) = grep { $_->{data} =~ /"key":"c"/ } $store->entries; $found });
ok(!IO::Select->new($held->{link})->can_read(0), 'the response waits for the sync');
$store->execute('XDEL', $entry->{stream}, $entry->{entry});
$store->execute('DEL', $_) for grep { /\Q$entry->{id}\E|idempotency:/ } @{ $store->execute('KEYS', '*') };
my $lost = $held->read_response;
is($lost->{status}, 503, 'a lost notification causes 503 instead of 201');
like($lost->{json}{detail}, qr/lost the notification/, 'the problem details report the loss');
my $second = post('c');
is($second->{status}, 201, 'a repeat with the same key stores the notification again') or diag(explain($second));
isnt($second->{json}{id}, $entry->{id}, 'the notification has a new id');

# The store stops during the wait.
$held = begin('d', Prefer => 'wait=10');
wait_until('the notification is stored', sub { grep { $_->{data} =~ /"key":"d"/ } $store->entries });
$store->stop;
is($held->read_response->{status}, 503, 'a request receives 503 if the store stops during the wait');
$store->start;
$relay->wait_ready;

# All requests wait, or the store syncs each write.
$relay->configure('store.publish_sync' => 'on');
$relay->restart;
is(post('e')->{headers}{'preference-applied'}, 'wait', 'publish_sync = on makes every response wait');
is($store->execute('CONFIG', 'SET', 'appendfsync', 'always'), 'OK', 'the store syncs each write');
$relay->restart;
is(post('f', Prefer => 'wait=1')->{headers}{'preference-applied'}, 'wait', 'with appendfsync always, even a short wait is applied');
my $last = begin('g');
$relay->stop;
pass('a relay that is stopped during a wait exits');
done_testing();
