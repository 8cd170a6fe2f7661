# Tests the requests of Web Push subscriptions: each endpoint has one user, the last one who subscribed, in a store of one
# or of several shards.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Clairon::Test::RawSocket;
use JSON ();
use MIME::Base64 qw(encode_base64url decode_base64url);
use Test::More;

# The receiver's keys in the example of RFC 8291.
my $POINT = 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4';
my $AUTH  = 'BTBZMqHH6r4Tts7J_aSIgg';
my $relay;

# Writes a new private key, and returns its public key as OpenSSL prints it.
sub vapid_key
{
    my ($path) = @_;
    my $program = Clairon::Test::program();
    system("umask 077; '$program' vapid >'$path'") == 0 or die "could not create a key\n";
    my $der = qx{openssl pkey -in '$path' -pubout -outform DER} or die "could not read the key\n";
    return encode_base64url(substr $der, -65);
}

sub restart_with
{
    my (%conf) = @_;
    $relay->stop;
    $relay->configure(%conf);
    $relay->start;
    $relay->wait_ready;
    return;
}

sub http
{
    my ($user, $method, $path, $body, %headers) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method, "/v1/webpush/$path", ':body' => $body,
        (defined $user ? (Authorization => 'Bearer ' . token(sub => $user)) : ()), %headers);
}

sub subscription { my ($name, %more) = @_; return { endpoint => "https://push.example.net/$name", keys => { p256dh => $POINT, auth => $AUTH }, %more } }
sub subscribe   { my ($user, $name, %more) = @_; return http($user, POST => 'subscriptions', subscription($name, %more))->{status} }
sub unsubscribe { my ($user, $name) = @_; return http($user, DELETE => 'subscriptions', { endpoint => "https://push.example.net/$name" })->{status} }
sub names { my ($user) = @_; return join ' ', map { $_->{endpoint} =~ s{.*/}{}r } @{ http($user, GET => 'subscriptions')->{json}{subscriptions} } }

my @public = map { vapid_key(scratch() . "/vapid$_") } 0, 1;
my %conf = ('webpush.vapid_key_file' => scratch() . '/vapid0', 'webpush.subject' => 'mailto:ops@example.org',
    'webpush.app_url' => 'https://app.example/', 'webpush.origins' => 'https://push.example.net', 'webpush.max_per_user' => 3);

for my $shards (1, 4)
{
    my $store = Clairon::Test::store();
    $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { %conf, 'store.shards' => $shards });
    my $prefix = $shards > 1 ? 'clairon:{*}:' : 'clairon:';
    my $keys = sub { return @{ $store->execute('KEYS', "$prefix$_[0]:*") } };

    is(subscribe(u1 => 'a'), 201, 'the first request creates the subscription');
    is(subscribe(u1 => 'a'), 200, 'a repeated request renews it');
    is(names('u1'), 'a', 'a user reads the own subscriptions');
    is(names('u2'), '', 'and not those of other users');

    # The newest keys count.
    my $other = encode_base64url(pack 'C16', 1 .. 16);
    is(http(u1 => POST => 'subscriptions', subscription('a', keys => { p256dh => $POINT, auth => $other }))->{status}, 200, 'other keys are accepted');
    my ($list) = $keys->('subscriptions');
    like(join(' ', @{ $store->execute('HVALS', $list) }), qr{^\d+ https://push\.example\.net/a 24 $POINT $other $public[0]$},
        'and replace the former keys; the VAPID key is the first one');

    # Another user of the same browser.
    is(subscribe(u2 => 'a'), 201, 'another user who subscribes takes over the endpoint');
    is(names('u2'), 'a', 'it is then a subscription of the other user');
    is(names('u1'), '', 'and no longer one of the former user');
    is(unsubscribe(u1 => 'a'), 204, 'the former user cannot remove it');
    is(names('u2'), 'a', 'it is still there');
    is(subscribe(u1 => 'a'), 201, 'the first user returns');
    is(names('u1') . '/' . names('u2'), 'a/', 'with the endpoint');
    is(unsubscribe(u1 => 'a'), 204, 'a user removes the own subscription');
    is(unsubscribe(u1 => 'a'), 204, 'a repeated removal succeeds');
    is(names('u1'), '', 'it is removed');
    is(scalar(map { $keys->($_) } qw(subscriptions endpoint)), 0, 'nothing is left in the store');

    # A stale list is repaired when it is read.
    subscribe(u1 => 'b');
    subscribe(u2 => 'b');
    is(scalar($keys->('subscriptions')), 2, 'the list of the former user still contains the endpoint');
    names('u1');
    wait_until('the list of the former user is repaired', sub { $keys->('subscriptions') == 1 });
    unsubscribe(u2 => 'b');

    # A user who is cut off receives no Web Push.
    my $kick = sub { my ($user, $body) = @_; return Clairon::Test::RawSocket->new($relay)->request(POST => "/v1/users/$user/disconnect",
        ':body' => $body, Authorization => 'Bearer ' . token(sub => 'root', admin => JSON::true))->{status} };
    subscribe($_ => "of-$_") for qw(k1 k2 k3);
    is($kick->('k1', {}), 204, 'a user is kicked');
    is($kick->('k2', { jti => 'j' }), 204, 'a single token of another user too');
    is(($relay->run('kick', 'k3'))[0], 0, 'and a third user, with the command');
    is(join(' ', map { s/.*://r } $keys->('subscriptions')), 'k2', 'the subscriptions of users who are cut off are removed');
    unsubscribe(k2 => 'of-k2');
    $store->execute('DEL', $keys->('endpoint'));

    # One above the maximum replaces the oldest, by the store's milliseconds.
    my $now_ms = sub { my $time = $store->execute('TIME'); return join '', $time->[0], sprintf '%03d', $time->[1] / 1000 };
    for my $name (qw(a b c a d))
    {
        subscribe(u3 => $name);
        my $then = $now_ms->();
        wait_until('a millisecond passes', sub { $now_ms->() ne $then });
    }
    is(join(' ', sort split / /, names('u3')), 'a c d', 'a subscription above the maximum replaces the one that was not renewed for longest');
    my ($id) = map { s/.*://r } grep { $store->execute('GET', $_) eq 'u3' } $keys->('endpoint');
    like($store->execute('PTTL', (grep { /\Q$id\E$/ } $keys->('endpoint'))[0]), qr/^5[01]\d{8}$/, 'a subscription is kept for 60 days');
    $relay->stop;
}

# Subscriptions that no client renews are removed.
$relay = Clairon::Test::relay(undef, Clairon::Test::store(), roles => 'gate', conf => { %conf, 'webpush.keep' => '1s' });
is(subscribe(u1 => 'a'), 201, 'a subscription is created');
wait_until('it expires without a renewal', sub { names('u1') eq '' });
is(subscribe(u1 => 'a'), 201, 'it can be created again');

# The VAPID key, and its rotation.
my $response = http(undef, GET => 'key');
is_deeply([ $response->{status}, $response->{json} ], [ 200, { key => $public[0] } ], 'the VAPID key is served without a token');
is(subscribe(u1 => 'x', key => $public[1]), 400, 'a subscription for an unknown key is rejected');
restart_with('webpush.vapid_key_file' => join(', ', map { scratch() . "/vapid$_" } 1, 0));
is(http(undef, GET => 'key')->{json}{key}, $public[1], 'the first of two keys is served');
is(subscribe(u1 => "r$_", key => $public[$_]), 201, 'subscriptions of both keys are accepted') for 0, 1;

# Invalid requests name the field.
for my $case ([ 'endpoint', subscription('a', endpoint => 'https://evil.example/a') ], [ 'endpoint', subscription('a', endpoint => undef) ],
    [ 'keys', subscription('a', keys => [] ) ], [ 'keys.p256dh', subscription('a', keys => { p256dh => $AUTH, auth => $AUTH }) ],
    [ 'keys.auth', subscription('a', keys => { p256dh => $POINT, auth => 'AAAA' }) ], [ 'key', subscription('a', key => 'x') ],
    [ 'expirationTime', subscription('a', expirationTime => 'x') ], [ 'body', 'x' ], [ 'body', [] ])
{
    $response = http(u1 => POST => 'subscriptions', $case->[1]);
    is($response->{status}, 400, "an invalid $case->[0] is rejected");
    like($response->{json}{detail}, qr/^\Q$case->[0]\E /, 'and named');
}
$response = http(u1 => DELETE => 'subscriptions', {});
is($response->{status}, 400, 'a removal without an endpoint is rejected');
like($response->{json}{detail}, qr/^endpoint /, 'and named');
is(http(undef, $_ => 'subscriptions', {})->{status}, 401, "$_ requires a token") for qw(GET POST DELETE);
is(http(u1 => POST => 'subscriptions', 'x' x 20000)->{status}, 413, 'a large body is rejected');
$response = http(u1 => PUT => 'subscriptions', {});
is_deeply([ $response->{status}, $response->{headers}{allow} ], [ 405, 'GET, POST, DELETE' ], 'another method is rejected');

# Pages of allowed origins.
restart_with('gate.origins' => 'https://app.example');
$response = http(undef, GET => 'key', undef, Origin => 'https://app.example');
is($response->{headers}{'access-control-allow-origin'}, 'https://app.example', 'a page of an allowed origin reads the key');
is(http(undef, GET => 'key', undef, Origin => 'https://evil.example')->{status}, 403, 'a page of another origin does not');
$response = http(undef, OPTIONS => 'subscriptions', undef, Origin => 'https://app.example');
is($response->{headers}{'access-control-allow-methods'}, 'GET, POST, DELETE', 'a page may use all methods');

# Without a key the paths do not exist.
restart_with('webpush.vapid_key_file' => undef);
is(http(u1 => @$_)->{status}, 404, "$_->[0] $_->[1] does not exist without a key") for [ GET => 'key' ], [ GET => 'subscriptions' ], [ POST => 'subscriptions', {} ];

done_testing();
