# Tests that POST /v1/webpush/test sends encrypted, signed requests to push services, and how each response is handled.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Clairon::Test::PushService;
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

my $program = Clairon::Test::program();
system("umask 077; '$program' vapid >'@{[ scratch() ]}/vapid$_'") == 0 or die "could not create a key\n" for 0, 1;
my $service = Clairon::Test::PushService->new;
my $store   = Clairon::Test::store();
my $relay   = Clairon::Test::relay(undef, $store, roles => 'gate', conf => {
    'webpush.vapid_key_file' => scratch() . '/vapid0', 'webpush.subject' => 'mailto:ops@example.org', 'webpush.app_url' => 'https://app.example/start',
    'webpush.origins' => $service->origin, 'webpush.allow_private' => 'on' });

sub http
{
    my ($user, $method, $path, $body) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method, "/v1/webpush/$path", ':body' => $body, Authorization => 'Bearer ' . token(sub => $user));
}
sub subscribe { my ($user, $path, %more) = @_; return http($user, POST => 'subscriptions', $service->subscription($path, %more))->{status} }
sub paths { my ($list) = @_; return join ' ', sort map { $_->{endpoint} =~ s{^http://[^/]*/}{}r } @{ $list->{json}{subscriptions} } }
sub kept { my ($user) = @_; return paths(http($user, GET => 'subscriptions')) }
sub test_of { my ($user) = @_; return http($user, POST => 'test')->{json}{subscriptions} }
sub rejected { my ($status) = @_; return $relay->metric('clairon_webpush_refused_total{status="' . $status . '"}') }

# A request that the service accepts.
is(subscribe(u1 => '201/a'), 201, 'a browser subscribes');
is_deeply(test_of('u1'), [ { endpoint => $service->origin . '/201/a', status => 201 } ], 'the test returns the status of the push service');
my ($request) = $service->requests;
is($request->{error}, undef, 'the body is decrypted, and the VAPID token is valid');
my $topic = $request->{headers}{topic};
like($topic, qr/^[\w-]{32}$/, 'the topic has 32 characters of base64url');
is_deeply(JSON::decode_json($request->{plain}), { web_push => 8030, mutable => JSON::true, notification => { title => 'Test notification',
    body => 'Web Push works in this browser.', navigate => 'https://app.example/start', tag => $topic } }, 'the body is a declarative Web Push');
is_deeply([ @{ $request->{headers} }{qw(content-type content-encoding ttl urgency)} ],
    [ 'application/notification+json', 'aes128gcm', '60', 'normal' ], 'the headers are those of RFC 8030 and RFC 8188');
is_deeply([ @{ $request->{vapid} }{qw(sub hours)} ], [ 'mailto:ops@example.org', 12 ], 'the token has the subject and is valid for 12 hours');
my $first_key = http(u1 => GET => 'key')->{json}{key};
is($request->{vapid}{key}, $first_key, 'the request is signed with the public key of the relay');
test_of('u1');
is(($service->requests)[1]{headers}{topic}, $topic, 'a second test replaces the first one');
is(($service->requests)[1]{vapid}{token}, $request->{vapid}{token}, 'the token is reused');
isnt(($service->requests)[1]{plain}, undef, 'the second request is encrypted too');
is($relay->metric('clairon_webpush_sent_total'), 2, 'accepted requests are counted');
is_deeply(test_of('stranger'), [], 'a user without a subscription has nothing to test');

# The endpoint belongs to the last user.
subscribe(u2 => '201/a');
is_deeply(test_of('u1'), [], 'the former user of an endpoint sends nothing to it');
is(scalar(@{ test_of('u2') }), 1, 'its user does');
isnt(($service->requests)[2]{headers}{topic}, $topic, 'with another topic');

# Subscriptions that have ended are removed, others are kept.
my %outcome;
for my $status (404, 410, 400, 401, 403, 413, 429, 500, 301)
{
    subscribe("s$status" => "$status/x");
    is_deeply(test_of("s$status"), [ { endpoint => $service->origin . "/$status/x", status => $status } ], "a status of $status is returned");
    is(scalar($service->requests("$status/x")), 1, 'the request is not repeated, nor redirected');
    next if $status != 404 && $status != 410;
    wait_until("a subscription with $status is removed", sub { kept("s$status") eq '' });
    is($store->execute('KEYS', "*subscriptions:s$status")->[0], undef, 'also from the store');
}
is(kept("s$_"), "$_/x", "a subscription with $_ is kept") for 400, 401, 403, 413, 429, 500, 301;
is_deeply([ map { rejected($_) } 400, 401, 403, 413 ], [ 2, 1, 1, 1 ], 'refused requests are counted by status');
like($relay->log_text, qr/component=webpush level=warn .*service="?http:\/\/127\.0\.0\.1:\d+"? status="?403/, 'and logged with the origin of the service');
my (undef, $findings) = $relay->run('doctor');
like($findings, qr/^WARN +gate +Web Push: push services have refused 2 Web Pushes with 401 or 403\n +hint: .*ClaironWebPushRefused/m, 'the doctor reports refused signatures');
like($findings, qr/^WARN +gate +Web Push: push services have refused 2 Web Pushes with 400 or another status$/m, 'and other refusals');
test_of('s403') for 1 .. 9;
cmp_ok(scalar(() = $relay->log_text =~ /status="?403"?/g), '<', 10, 'not each of many is logged');
unlike($relay->log_text, qr{/403/x}, 'the endpoint is not logged: whoever knows it can address the browser');

# A service that does not respond delays no other.
$relay->configure('webpush.timeout' => '1s');
$relay->restart;
subscribe(u3 => $_) for qw(hang/x 201/b);
my %result = map { $_->{endpoint} =~ s{.*:\d+/}{}r => $_ } @{ test_of('u3') };
is($result{'201/b'}{status}, 201, 'one service accepts');
is($result{'hang/x'}{error}, 'could not send to the push service', 'the other times out with an error, which has no details of the network');
is($result{'hang/x'}{status}, undef, 'and without a status');

# Two keys: a subscription that the service rejects is repeated once with the other key.
$relay->configure('webpush.vapid_key_file' => join ',', map { scratch() . "/vapid$_" } 1, 0);
$relay->restart;
my $second_key = http(u4 => GET => 'key')->{json}{key};
isnt($second_key, $first_key, 'the new key comes first');
subscribe(u4 => "KEY=$first_key/x", key => $first_key);
is(test_of('u4')->[0]{status}, 201, 'a subscription is used with the key that it was made with');
is_deeply([ map { $_->{vapid}{key} } $service->requests("KEY=$first_key/x") ], [$first_key], 'at the first attempt');
subscribe(u5 => "KEY=$first_key/y");
is(test_of('u5')->[0]{status}, 201, 'a subscription of an unknown key succeeds with the other key');
is_deeply([ map { $_->{vapid}{key} } $service->requests("KEY=$first_key/y") ], [ $second_key, $first_key ], 'at the second attempt');
subscribe(u6 => '403/y');
is(test_of('u6')->[0]{status}, 403, 'a service that rejects both keys');
is(scalar($service->requests('403/y')), 2, 'receives no third request');

# A client that disconnects ends its requests.
subscribe(u7 => 'hang/y');
my $raw = Clairon::Test::RawSocket->new($relay);
$raw->begin(POST => '/v1/webpush/test', ':body' => '{}', Authorization => 'Bearer ' . token(sub => 'u7'));
wait_until('the service has received the request', sub { $service->requests('hang/y') });
undef $raw;
is(http(u1 => GET => 'key')->{status}, 200, 'the relay continues when a client disconnects during a test');

# Private addresses are rejected.
$relay->configure('webpush.allow_private' => undef);
$relay->restart;
subscribe(u8 => '201/private');
my ($response) = @{ test_of('u8') };
is($response->{status}, undef, 'a request to a loopback address has no status');
is($response->{error}, 'could not send to the push service', 'but an error');
is(scalar($service->requests('201/private')), 0, 'the service receives nothing');

done_testing();
