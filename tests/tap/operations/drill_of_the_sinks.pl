# Tests the drill of docker/FAILOVER.md for a webhook and push services that cannot be reached, with the commands of the page.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch top);
use Clairon::Test::Endpoint;
use Clairon::Test::PushService;
use Clairon::Test::RawSocket;
use Clairon::Test::Receipts;
use JSON ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

my $SECTION = 'The network of the sinks is cut';
my ($section) = slurp_file(top() . '/docker/FAILOVER.md') =~ /^### \Q$SECTION\E\n(.*?)(?=^### |\z)/ms or die "no section\n";
my @blocks = $section =~ /^```\n(.*?)^```$/msg;
is(scalar(@blocks), 3, 'the page has the commands to cut, to watch and to repair');

my $program = Clairon::Test::program();
system("umask 077; '$program' vapid >'@{[ scratch() ]}/vapid'") == 0 or die "could not create a key\n";
my $service  = Clairon::Test::PushService->new;
my $endpoint = Clairon::Test::Endpoint->launch;
my $store    = Clairon::Test::store();
my $receipts = Clairon::Test::Receipts->new(undef, $store);
my $relay    = Clairon::Test::relay(undef, $store, roles => 'gate,sink', conf => {
    $endpoint->settings, 'delivery.backoff_base' => '100ms',
    'webpush.vapid_key_file' => scratch() . '/vapid', 'webpush.subject' => 'mailto:ops@example.org', 'webpush.app_url' => 'https://app.example/',
    'webpush.origins' => $service->origin, 'webpush.allow_private' => 'on', 'webpush.delay' => '100ms' });

# Runs a block of the page, with the file and the address of this relay. Returns its output.
sub run_block
{
    my ($block) = @_;
    my $output = '';
    for my $command (split /\n/, $block)
    {
        if ($command eq 'systemctl restart clairon-relay') { $relay->restart; next }
        $command =~ s{/etc/clairon/relay\.conf}{$relay->{file}}g;
        $command =~ s{http://127\.0\.0\.1:8080}{$relay->url}ge;
        $output .= qx{$command};
        is($?, 0, "the page's command succeeds: " . substr $command, 0, 60);
    }
    return $output;
}
sub http
{
    my ($claims, $path, $body) = @_;
    return Clairon::Test::RawSocket->new($relay)->request(POST => $path, ':body' => $body, Authorization => 'Bearer ' . token(%$claims));
}
sub failures { my ($sink) = @_; return $relay->metric(qq(clairon_sink_failures_total{sink="$sink"})) }

http({ sub => 'u1' }, '/v1/webpush/subscriptions', $service->subscription('201/u1'));
run_block($blocks[0]);
my ($receipt) = $receipts->add({});
is(http({ sub => 'app', publish => JSON::true }, '/v1/notifications',
    { payload => {}, web_push => { title => 'x' }, routing => { audience => { type => 'USER', targets => ['u1'] } } })->{status}, 201, 'notifications are accepted');
wait_until('both sinks have failed', sub { failures('webhook') && failures('webpush') });
wait_until('the backlog is counted', sub { $relay->metric('clairon_sink_backlog_receipts{sink="webhook"}') == 1 });
like(run_block($blocks[1]), qr/^clairon_sink_backlog_receipts\{sink="webpush"\} 1$/m, 'the page shows the number of those that wait');
is(($relay->get('/readyz'))[0], 200, 'the relay is ready');
my $client = $relay->client('u2');
http({ sub => 'app', publish => JSON::true }, '/v1/notifications', { payload => {}, routing => { audience => { type => 'USER', targets => ['u2'] } } });
$client->wait_notifications(1);
is(scalar($client->notifications), 1, 'notifications are delivered');
is_deeply([ $endpoint->requests, $service->requests ], [], 'nothing is sent');

run_block($blocks[2]);
wait_until('the webhook receives the receipt', sub { grep { $_ eq $receipt } $endpoint->received });
wait_until('the push service receives the Web Push', sub { my @requests = $service->requests; @requests == 1 });
wait_until('nothing waits', sub { !grep { $relay->metric(qq(clairon_sink_backlog_receipts{sink="$_"})) } qw(webhook webpush) });

done_testing();
