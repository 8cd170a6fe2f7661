# Tests that the primary, the endpoint of the webhook and a push service that are down for an hour delay nothing else, and that
# nothing is lost. The clocks of the relay and of the store are advanced.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Clairon::Test::Clock;
use Clairon::Test::Endpoint;
use Clairon::Test::PushService;
use Clairon::Test::RawSocket;
use Clairon::Test::Receipts;
use JSON ();
use Test::More;

my $HOUR = 3600;
plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;
plan skip_all => 'a sanitizer must be the first library of the process' unless Clairon::Test::Clock::is_usable();

my $clock = Clairon::Test::Clock->new;

my $program = Clairon::Test::program();
system("umask 077; '$program' vapid >'@{[ scratch() ]}/vapid'") == 0 or die "could not create a key\n";

my $service  = Clairon::Test::PushService->new;
my $endpoint = Clairon::Test::Endpoint->launch;
my $target   = Clairon::Test::postgresql('main');
my $store    = $clock->start(sub { Clairon::Test::store() });
my $receipts = Clairon::Test::Receipts->new($target, $store);
my $relay    = $clock->start(sub { Clairon::Test::relay(undef, $store, roles => 'gate,sink', conf => {
    'receipts.sql' => 'true', 'receipts.conninfo' => $target->connstr('postgres') . ' user=relay',
    $endpoint->settings,
    'webpush.vapid_key_file' => scratch() . '/vapid', 'webpush.subject' => 'mailto:ops@example.org', 'webpush.app_url' => 'https://app.example/',
    'webpush.origins' => $service->origin, 'webpush.allow_private' => 'on', 'webpush.delay' => '100ms', 'webpush.timeout' => '1s' }) });

# Tokens are valid for longer than the test advances the clocks.
my %lifetime = (exp => time + 10 * $HOUR);
sub http
{
    my ($claims, $path, $body) = @_;
    return Clairon::Test::RawSocket->new($relay)->request(POST => $path, ':body' => $body, Authorization => 'Bearer ' . token(%lifetime, %$claims));
}
sub publish
{
    my ($user, %more) = @_;
    return http({ sub => 'app', publish => JSON::true }, '/v1/notifications',
        { payload => {}, routing => { audience => { type => 'USER', targets => [$user] } }, %more })->{json}{id};
}
sub metric { my ($name, $sink) = @_; return $relay->metric(qq(clairon_sink_$name\{sink="$sink"})) }
# Connections whose requests last longer than their timeout, because the clock was advanced, are made again.
sub check_served
{
    my ($when) = @_;
    $relay->wait_ready;
    my $client = $relay->client('u1', %lifetime);
    my $id     = publish('u1');
    ok($client->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{metadata}{id} eq $id }), "a notification is delivered $when");
    $client->close;
    return;
}
my @SINKS = qw(sql webhook webpush);

http({ sub => 'absent' }, '/v1/webpush/subscriptions', $service->subscription('201/absent'));
$receipts->add_many(10);
$receipts->wait_all;
$target->stop('immediate');
$endpoint->end;
kill STOP => $service->{pid}; # it accepts connections and does not respond
$receipts->add_many(1000);
my @pushes = map { publish('absent', web_push => { title => "push $_" }) } 1 .. 20;
wait_until("$_ has failed", sub { metric("failures_total", $_) > 0 }) for @SINKS;
check_served('while the sinks are down');

$clock->advance($HOUR / 12), check_served('after ' . 5 * $_ . ' minutes') for 1 .. 12;
wait_until("the oldest one of $_ is older than an hour", sub { metric("oldest_seconds", $_) >= $HOUR }) for @SINKS;
wait_until("all of $_ wait", sub { metric('backlog_receipts', $_) == ($_ eq 'webpush' ? 20 : 1000 * $store->shards) }) for @SINKS;

$target->start;
$endpoint->start;
kill CONT => $service->{pid};
$clock->advance($HOUR); # longer than the time between two attempts
$receipts->wait_all;
is_deeply([ $receipts->differences ], [], 'each receipt is one row');
my %sent;
wait_until('the webhook has received all receipts', sub { %sent = map { $_ => 1 } $endpoint->received; !grep { !$sent{$_} } keys %{ $receipts->{ids} } });
my %titles;
wait_until('the push service has received all Web Pushes', sub { $titles{ JSON::decode_json($_->{plain})->{notification}{title} } = 1 for grep { $_->{plain} } $service->requests; keys %titles == 20 });
wait_until('nothing waits', sub { !grep { metric('backlog_receipts', $_) } @SINKS });
is(metric('dropped_total', $_), 0, "no sink has lost anything: $_") for @SINKS;
check_served('at the end');

done_testing();
