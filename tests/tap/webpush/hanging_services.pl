# Tests that a push service that does not respond holds back no other one, however many Web Pushes wait for it.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Clairon::Test::PushService;
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

my ($USERS, $EACH) = (100, 12);    # more Web Pushes than a relay takes from the queue together
my $program = Clairon::Test::program();
system("umask 077; '$program' vapid >'@{[ scratch() ]}/vapid'") == 0 or die "could not create a key\n";
my ($hanging, $other) = map { Clairon::Test::PushService->new } 1, 2;
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate,sink', conf => {
    'webpush.vapid_key_file' => scratch() . '/vapid', 'webpush.subject' => 'mailto:ops@example.org', 'webpush.app_url' => 'https://app.example/start',
    'webpush.origins' => join(', ', map { $_->origin } $hanging, $other), 'webpush.allow_private' => 'on', 'webpush.delay' => '100ms', 'webpush.timeout' => '10m' });

sub http
{
    my ($claims, $method, $path, $body) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method, $path, ':body' => $body, Authorization => 'Bearer ' . token(%$claims));
}
sub subscribe { my ($user, $service, $path) = @_; return http({ sub => $user }, POST => '/v1/webpush/subscriptions', $service->subscription($path))->{status} }
sub publish
{
    my (@users) = @_;
    return http({ sub => 'app', publish => JSON::true }, POST => '/v1/notifications', { payload => {}, web_push => { title => 'x' },
        routing => { audience => { type => 'USER', targets => \@users } } })->{status};
}

my @waiting = map { "w$_" } 1 .. $USERS;
is(scalar(grep { subscribe($_, $hanging, "hang/$_") != 201 } @waiting), 0, "$USERS browsers subscribe at a service that does not respond");
subscribe('u1', $other, '201/u1');
is(scalar(grep { publish(@waiting) != 201 } 1 .. $EACH), 0, "$EACH notifications have Web Pushes for all of them");
wait_until('the service has received requests', sub { scalar($hanging->requests) >= 16 });
wait_until('the relay has taken all Web Pushes', sub { $store->sum('ZCOUNT', 'webpush', '-inf', 1000 * time) == 0 });
is(publish('u1'), 201, 'a notification has one for a user of another service');
wait_until('the other service has received it', sub { scalar($other->requests) == 1 });
wait_until('the Web Pushes that wait are counted', sub { $relay->metric('clairon_sink_backlog_receipts{sink="webpush"}') == $USERS * $EACH });
cmp_ok($relay->metric('clairon_sink_oldest_seconds{sink="webpush"}'), '>', 0, 'as is the age of the oldest');
is(scalar($hanging->requests), 16, 'the service that does not respond has a part of the connections');
is(http({ sub => 'u1' }, POST => '/v1/webpush/test', {})->{json}{subscriptions}[0]{status}, 201, 'a test of the other service succeeds too');

# Tests and the queue share the limits of the process.
is_deeply(http({ sub => 'w1' }, POST => '/v1/webpush/test', {})->{json}{subscriptions}, [ { endpoint => $hanging->origin . '/hang/w1', error => 'too many requests to this push service' } ],
    'a test of the service that does not respond reports its many requests');
is(scalar($hanging->requests), 16, 'it has no further connections');

done_testing();
