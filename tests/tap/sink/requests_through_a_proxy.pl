# Tests that the webhook and Web Pushes are sent through sink.proxy, which resolves the names and tunnels TLS, and that they
# wait in the store while the proxy refuses.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Clairon::Test::Authority;
use Clairon::Test::Endpoint;
use Clairon::Test::PushService;
use Clairon::Test::RawSocket;
use Clairon::Test::Receipts;
use IO::Select;
use IO::Socket::SSL;
use JSON ();
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

# An endpoint with TLS.
{
    package SecureEndpoint;
    use parent -norequire, 'Clairon::Test::Endpoint';
    sub serve
    {
        my ($self, $socket) = @_;
        $socket = IO::Socket::SSL->start_SSL($socket, SSL_server => 1, SSL_cert_file => $self->{cert}, SSL_key_file => $self->{key}) or return;
        return $self->SUPER::serve($socket);
    }
}

# A proxy that tunnels each connection to the port on loopback that the test has given the host, and records CONNECT. The status 0: it tunnels.
{
    package ConnectProxy;
    use parent -norequire, 'Clairon::Test::Endpoint';
    sub reply { my ($self, $status) = @_; $self->SUPER::reply($status); return }
    sub serve
    {
        my ($self, $client) = @_;
        my $head = '';
        while ($head !~ /\r\n\r\n/) { sysread $client, $head, 1, length $head or return }
        my ($host) = $head =~ /^CONNECT ([^:\s]+):443 / or return;
        open my $file, '<', "$self->{folder}/reply" or return;
        my ($status) = @{ JSON::decode_json(<$file>) };
        my ($sign) = $head =~ /^Proxy-Authorization: Basic (\S+)/mi;
        open my $log, '>>', "$self->{folder}/connects" or return;
        syswrite $log, "$host " . ($sign // '-') . " $status\n";
        if ($status) { syswrite $client, "HTTP/1.1 $status Refused\r\nRetry-After: 86400\r\nContent-Length: 0\r\n\r\n"; return }
        my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{ports}{$host}) or return;
        syswrite $client, "HTTP/1.1 200 Established\r\n\r\n";
        my $both = IO::Select->new($client, $server);
        while (my @ready = $both->can_read)
        {
            for my $from (@ready)
            {
                sysread $from, my $bytes, 65536 or return;
                syswrite $from == $client ? $server : $client, $bytes or return;
            }
        }
        return;
    }
    sub connects { my ($self) = @_; open my $file, '<', "$self->{folder}/connects" or return; my @lines = <$file>; chomp @lines; return @lines }
}

sub write_file { my ($path, $text) = @_; open my $file, '>', $path or die "could not write: $!\n"; print {$file} $text; close $file; chmod 0600, $path; return $path }
my $program = Clairon::Test::program();
my $secret = write_file(scratch() . '/secret', "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
system("umask 077; '$program' vapid >'@{[ scratch() ]}/vapid'") == 0 or die "could not create a key\n";

my $authority = Clairon::Test::Authority->new;
my %hook_tls  = %{ $authority->certificate('DNS:hook.invalid') };
my $endpoint  = SecureEndpoint->new(folder => Clairon::Test::new_folder('endpoint'));
@$endpoint{qw(cert key)} = @hook_tls{qw(cert key)};
my %push_tls = %{ $authority->certificate('DNS:push.invalid') };
my $service  = Clairon::Test::PushService->new(origin => 'https://push.invalid', cert => $push_tls{cert}, key => $push_tls{key});
my $proxy    = ConnectProxy->new(folder => Clairon::Test::new_folder('proxy'));
$proxy->{ports} = { 'hook.invalid' => $endpoint->{port}, 'push.invalid' => $service->{port} };
$proxy->reply(403);
for my $server ($endpoint, $proxy) { Clairon::Test::remember($server); $server->start }

my $store    = Clairon::Test::store();
my $receipts = Clairon::Test::Receipts->new(undef, $store);
my $relay    = Clairon::Test::relay(undef, $store, roles => 'gate,sink', conf => {
    'sink.proxy' => "http://user:word\@127.0.0.1:$proxy->{port}",
    'webhook.url' => 'https://hook.invalid/hook', 'webhook.secret_file' => $secret, 'webhook.ca_file' => $hook_tls{ca},
    'webpush.vapid_key_file' => scratch() . '/vapid', 'webpush.subject' => 'mailto:ops@example.org', 'webpush.app_url' => 'https://app.example/',
    'webpush.origins' => 'https://push.invalid', 'webpush.ca_file' => $push_tls{ca}, 'webpush.delay' => '100ms', 'delivery.backoff_base' => '100ms' });
sub http
{
    my ($claims, $path, $body) = @_;
    return Clairon::Test::RawSocket->new($relay)->request(POST => $path, ':body' => $body, Authorization => 'Bearer ' . token(%$claims));
}

is(http({ sub => 'u1' }, '/v1/webpush/subscriptions', $service->subscription('201/u1'))->{status}, 201, 'a browser subscribes');
is(http({ sub => 'app', publish => JSON::true }, '/v1/notifications',
    { payload => {}, web_push => { title => 'x' }, routing => { audience => { type => 'USER', targets => ['u1'] } } })->{status}, 201, 'a notification is published');
my ($receipt) = $receipts->add({});
for my $host (qw(hook.invalid push.invalid))
{
    wait_until("the proxy has refused two connections to $host", sub { (grep { $_ =~ /^\Q$host\E .* 403$/ } $proxy->connects) >= 2 });
}
is($receipts->pending('webhook'), 1, 'the receipt waits in the store');
is($store->sum('ZCARD', 'webpush'), 1, 'as does the Web Push');
is_deeply([ $endpoint->requests, $service->requests ], [], 'nothing is sent past the proxy');
my $test = http({ sub => 'u1' }, '/v1/webpush/test', {})->{json}{subscriptions}[0];
is($test->{error}, 'could not send to the push service', 'a test of the subscription fails too');

$proxy->reply(0);
wait_until('the webhook receives the receipt through the proxy', sub { grep { $_ eq $receipt } $endpoint->received });
wait_until('the push service receives the Web Push through the proxy', sub { $service->requests });
my ($push) = $service->requests;
is($push->{error}, undef, 'the Web Push is decrypted, and its VAPID token names the push service');
is_deeply([ grep { !/ dXNlcjp3b3Jk / } $proxy->connects ], [], 'each connection has the credentials of the proxy');
is(http({ sub => 'u1' }, '/v1/webpush/test', {})->{json}{subscriptions}[0]{status}, 201, 'a test is sent through the proxy');
wait_until('nothing is left', sub { $receipts->pending('webhook') == 0 && $store->sum('ZCARD', 'webpush') == 0 });
is(scalar(grep { $_->{url} eq '/201/u1' } $service->requests), 2, 'the Web Push was sent once, in addition to the test');
unlike($relay->log_text, qr/user:word|dXNlcjp3b3Jk/, 'the log does not contain the password of the proxy');

done_testing();
